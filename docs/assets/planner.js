/* The planner, live: its own Python files, run by MicroPython in a worker of the
   reader's browser. Python writes all HTML; what is here asks for it and puts it
   in. Nothing is loaded before somebody asks. */
(() => {
  let waiting = 0;
  const ask = async (...question) => {
    waiting += 1;
    try {
      return await askPython("lockstep.explore.planner_page", ...question);
    } catch ({ message }) {
      return { failed: message };
    } finally {
      waiting -= 1;
    }
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
      root.ariaBusy = "true";
      const said = await ask(name, JSON.stringify(texts), form);
      root.ariaBusy = `${waiting > 0}`;
      said.ask ??= choice.value;
      const place = section(said.ask).querySelector(".planner-answer");
      if (said.failed) {
        const line = document.createElement("p");
        line.className = "planner-refused";
        line.setAttribute("role", "alert");
        line.textContent = said.failed;
        place.replaceChildren(line);
        return said;
      }
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
    const { ask: asked, show: figure, ...texts } = Object.fromEntries(new URLSearchParams(location.search));
    if (asked) {
      if (section(asked)) show(asked);
      compute(asked, texts, true).then((said) => {
        show(said.ask);
        if (figure) unfold(`#${said.ask}-${figure}`);
      });
    }
  };

  document$.subscribe(() => {
    const root = document.querySelector(".planner");
    if (root) start(root);
  });
})();
