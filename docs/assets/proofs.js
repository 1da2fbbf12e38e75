/* A proof mark opens what it names in place; without this script it leads to
   the list at the page's end. */
(() => {
  const close = (mark) => {
    document.getElementById(mark.getAttribute("aria-controls"))?.remove();
    mark.removeAttribute("aria-controls");
    mark.setAttribute("aria-expanded", "false");
  };
  const open = (mark) => {
    const box = document.createElement("span");
    box.className = "proof-box";
    box.id = `proof-box-${performance.now()}`.replace(".", "-");
    box.setAttribute("role", "note");
    for (const number of mark.dataset.proofs.split(" ")) {
      const entry = document.getElementById(`proof-${number}`);
      const line = document.createElement("span");
      line.className = "proof-entry";
      line.append(...[...entry.childNodes].map((x) => x.cloneNode(true)));
      line.prepend(`${number}. `);
      box.append(line);
    }
    mark.after(box);
    mark.setAttribute("aria-controls", box.id);
    mark.setAttribute("aria-expanded", "true");
  };
  const isOpen = (mark) => mark.getAttribute("aria-expanded") === "true";
  document.addEventListener("click", (event) => {
    const mark = event.target.closest?.("a.proof");
    if (!mark || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation();
    (isOpen(mark) ? close : open)(mark);
  }, true);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const box = event.target.closest?.(".proof-box");
    const mark = box?.previousElementSibling ?? event.target;
    if (!mark.matches?.("a.proof") || !isOpen(mark)) return;
    close(mark);
    mark.focus();
  });
  const ready = () => {
    for (const mark of document.querySelectorAll("a.proof")) {
      mark.setAttribute("role", "button");
      mark.setAttribute("aria-expanded", "false");
    }
  };
  window.document$?.subscribe(ready) ?? ready();
})();
