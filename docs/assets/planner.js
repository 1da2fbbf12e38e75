/* The planner, live: its own Python files, run by MicroPython in the reader's
   browser. Python writes all HTML; what is here asks for it and puts it in. */
(() => {
  const assets = document.currentScript.src;
  const at = (name) => new URL(name, assets).href;
  let python;

  const load = async () => {
    const [{ loadMicroPython }, files] = await Promise.all([
      import(at("micropython/micropython.mjs")),
      fetch(at("planner-files.json")).then((answer) => answer.json()),
    ]);
    const runtime = await loadMicroPython({ heapsize: 16 * 1024 * 1024 });
    const { FS } = runtime;
    for (const folder of ["/lockstep", "/lockstep/planner"]) FS.mkdir(folder);
    FS.writeFile("/lockstep/__init__.py", "");
    for (const [name, text] of Object.entries(files)) {
      FS.writeFile(`/lockstep/planner/${name}`, text);
    }
    runtime.runPython(
      "import sys; sys.path.append('/')\nfrom lockstep.planner.page import live",
    );
    return runtime.globals.get("live");
  };

  const start = (root) => {
    const choice = root.querySelector(".planner-ask select");
    const copy = root.querySelector(".planner-ask button");
    const section = (name) => root.querySelector(`[data-ask="${name}"]`);

    const show = (name) => {
      choice.value = name;
      for (const one of root.querySelectorAll("section")) {
        one.classList.toggle("planner-shown", one.dataset.ask === name);
      }
    };
    const unfolded = (place) =>
      [...place.querySelectorAll("details")].map((fold) => fold.open);
    const compute = async (name, texts, form) => {
      const live = await (python ??= load());
      const said = JSON.parse(live(name, JSON.stringify(texts), form));
      const place = section(said.ask).querySelector(".planner-answer");
      const open = unfolded(place);
      place.innerHTML = said.html;
      const folds = place.querySelectorAll("details");
      if (folds.length === open.length) {
        folds.forEach((fold, index) => { fold.open = open[index]; });
      }
      if (said.form) place.previousElementSibling.outerHTML = said.form;
      root.dataset.asked = said.ask;
      return said;
    };
    const unfold = (hash) => {
      const row = document.getElementById(hash.slice(1))?.closest("details");
      for (let fold = row; fold; fold = fold.parentElement.closest("details")) {
        fold.open = true;
      }
      row?.querySelector("summary").focus();
      return row;
    };
    const typed = (form) =>
      Object.fromEntries(
        [...form.elements]
          .filter(({ name }) => name)
          .map(({ name, type, checked, value }) =>
            [name, type === "checkbox" ? `${+checked}` : value]),
      );
    const update = async () => {
      const form = section(choice.value).querySelector("form");
      const { query } = await compute(choice.value, typed(form), false);
      const address = query && `?${new URLSearchParams(query)}`;
      if (query) history.replaceState(history.state, "", address);
    };

    root.addEventListener("input", ({ target }) => {
      if (target === choice) show(choice.value);
      update();
    });
    root.addEventListener("submit", (event) => event.preventDefault());
    root.addEventListener("focusin", ({ target }) => {
      const help = target.form?.querySelector(".planner-help");
      if (help) help.textContent = target.title && `${target.name}: ${target.title}`;
    });
    // A name in a formula leads to its own row, wherever that is folded away.
    // Instant navigation would load the page anew, and fold all.
    root.addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#']");
      if (!link || !unfold(link.hash)) return;
      event.preventDefault();
      event.stopPropagation();
    });
    copy.addEventListener("click", async () => {
      await update();
      await navigator.clipboard.writeText(location.href);
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy link"; }, 2000);
    });

    // Not in the hash: instant navigation puts the last page's heading there.
    const { ask, show: figure, ...texts } = Object.fromEntries(new URLSearchParams(location.search));
    if (ask) {
      if (section(ask)) show(ask);
      compute(ask, texts, true).then((said) => {
        show(said.ask);
        if (figure) unfold(`#${said.ask}-${figure}`);
      });
    } else {
      python ??= load();
    }
  };

  document$.subscribe(() => {
    const root = document.querySelector(".planner");
    if (root) start(root);
  });
})();
