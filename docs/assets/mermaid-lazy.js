/* Material asks for `window.mermaid` when a page has a diagram, and fetches it
   from elsewhere where there is none. This one stands on every page and imports
   the site's own copy the first time that a diagram is drawn: when one comes into
   view, and all of them once the reader has begun to read. */
(() => {
  const source = new URL("mermaid/mermaid.esm.min.mjs", document.currentScript.src);
  let settings = {};
  let library;
  const load = async () => {
    const { default: mermaid } = await import(source.href);
    mermaid.initialize(settings);
    return mermaid;
  };
  const begun = new Promise((resolve) => {
    for (const sign of ["scroll", "keydown", "pointerdown", "beforeprint"]) {
      addEventListener(sign, resolve, { once: true, passive: true });
    }
  });
  const seen = (text) =>
    new Promise((resolve) => {
      const watcher = new IntersectionObserver((all) => {
        if (!all.some((one) => one.isIntersecting)) return;
        watcher.disconnect();
        resolve();
      });
      for (const diagram of document.querySelectorAll("pre.mermaid")) {
        if (diagram.textContent === text) watcher.observe(diagram.parentElement);
      }
    });
  window.mermaid = {
    initialize: (given) => {
      settings = { ...given, securityLevel: "strict" };
    },
    render: async (id, text) => {
      await Promise.race([begun, seen(text)]);
      return (await (library ??= load())).render(id, text);
    },
  };
})();
