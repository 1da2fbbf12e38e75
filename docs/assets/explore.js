/* Explorables: Python draws each change. Nothing is loaded before a figure comes
   near; a change that comes while one is drawn waits, and only the last counts. */
(() => {
  const start = (figure) => {
    const { name } = figure.dataset;
    const form = figure.querySelector("form");
    const drawing = figure.querySelector(".explore-drawing");
    const fields = [...form.elements].filter((field) => field.name);
    const stops = (field) => field.dataset.stops.split(",");
    const value = (field) =>
      field.type === "range" ? stops(field)[field.value] : field.value;
    const written = () =>
      fields.map((field) => `${field.name}:${value(field)}`).join(",");
    let busy = false;
    let next;

    const show = (said) => {
      drawing.innerHTML = said.drawing;
      figure.querySelector(".explore-numbers").innerHTML = said.numbers;
      figure.querySelector(".explore-told").textContent = said.told;
      for (const field of fields) {
        if (field.type === "range") {
          field.value = stops(field).indexOf(said.values[field.name]);
          field.ariaValueText = said.said[field.name];
          field.parentElement.querySelector("output").textContent =
            said.said[field.name];
        } else {
          field.value = said.values[field.name];
        }
      }
      figure.dataset.shown = said.text;
    };
    const draw = async (text, remember = true) => {
      next = text;
      if (busy) return;
      busy = true;
      while (next !== undefined) {
        const asked = next;
        next = undefined;
        const width = Math.round(Math.min(660, drawing.clientWidth));
        let said;
        try {
          said = await askPython("lockstep.explore.page", name, asked, width);
        } catch ({ message }) {
          figure.querySelector(".explore-told").textContent = message;
          continue;
        }
        if (next === undefined) show(said);
        if (!remember) continue;
        const query = new URLSearchParams(location.search);
        if (said.text) query.set(name, said.text);
        else query.delete(name);
        const search = query.size ? `?${query}` : location.pathname;
        history.replaceState(history.state, "", search + location.hash);
      }
      busy = false;
    };

    figure.dataset.ready = "";
    form.addEventListener("input", () => draw(written()));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("click", ({ target }) => {
      if (target.dataset.set !== undefined) draw(target.dataset.set);
    });
    const asked = new URLSearchParams(location.search).get(name);
    // What the build drew is the default: a lazy figure waits for a change.
    if (asked !== null || figure.dataset.lazy === undefined) {
      draw(asked ?? "", false);
    }
  };

  // A link of the text that leads to a set scene shows it, too.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("article a[href*='#']");
    const scene = link && document.getElementById(link.hash.slice(1));
    const figure = scene?.closest("figure.explore");
    if (!figure || scene.dataset.set === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (figure.dataset.ready === undefined) start(figure);
    scene.click();
    figure.scrollIntoView({ block: "nearest" });
    scene.focus({ preventScroll: true });
  }, true);

  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      if (target.dataset.ready === undefined) start(target);
    }
  }, { rootMargin: "200px" });
  document$.subscribe(() => {
    for (const figure of document.querySelectorAll("figure.explore")) {
      near.observe(figure);
    }
  });
})();
