/* Estimation questions: a worker draws and checks them, this puts them in. The
   page comes with a first question, so nothing is loaded before somebody asks. */
(() => {
  const ask = (...question) =>
    askPython("lockstep.practice.estimates", ...question)
      .catch(({ message }) => ({ error: message }));
  const seeds = 1_000_000;

  const start = (form) => {
    const choice = form.querySelector("select");
    const typed = form.querySelector("input");
    const next = form.querySelector("button[type=button]");
    const verdict = form.querySelector(".estimates-verdict");

    const show = async (kind, seed) => {
      const said = await ask(kind, seed, "");
      verdict.textContent = said.error ?? "";
      delete verdict.dataset.right;
      if (said.error) return;
      form.dataset.kind = said.kind;
      form.dataset.seed = said.seed;
      form.querySelector(".estimates-question").textContent = said.question;
      form.querySelector(".estimates-worked").innerHTML = said.worked;
      typed.value = "";
    };
    const draw = async () => {
      const kinds = [...choice.options].map(({ value }) => value).filter(Boolean);
      const any = kinds[Math.floor(Math.random() * kinds.length)];
      await show(choice.value || any, Math.floor(Math.random() * seeds));
      const { kind, seed } = form.dataset;
      history.replaceState(history.state, "", `?${new URLSearchParams({ kind, seed })}`);
    };

    choice.addEventListener("change", draw);
    next.addEventListener("click", async () => {
      await draw();
      typed.focus();
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const said = await ask(form.dataset.kind, +form.dataset.seed, typed.value || " ");
      verdict.textContent = said.error ?? said.verdict;
      verdict.dataset.right = said.right ?? null;
      // So that Enter goes on; what is refused can be typed again.
      if (typeof said.right === "boolean") next.focus();
    });

    const asked = new URLSearchParams(location.search);
    const kind = asked.get("kind");
    const seed = Number(asked.get("seed"));
    if (!kind) return;
    choice.value = kind;
    if (asked.has("seed") && Number.isInteger(seed) && seed >= 0 && seed < seeds) {
      show(kind, seed);
    } else {
      draw();
    }
  };

  document$.subscribe(() => {
    const form = document.querySelector("form.estimates");
    if (form) start(form);
  });
})();
