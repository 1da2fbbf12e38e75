/* Material asks for `window.mermaid` when a page has a diagram, and fetches it
   from elsewhere where there is none. This one stands on every page and imports
   the site's own copy the first time that a diagram is drawn. */
(() => {
  const source = new URL("mermaid/mermaid.esm.min.mjs", document.currentScript.src);
  let settings = {};
  let library;
  const load = async () => {
    const { default: mermaid } = await import(source.href);
    mermaid.initialize(settings);
    return mermaid;
  };
  window.mermaid = {
    initialize: (given) => {
      settings = { ...given, securityLevel: "strict" };
    },
    render: async (...diagram) => (await (library ??= load())).render(...diagram),
  };
})();
