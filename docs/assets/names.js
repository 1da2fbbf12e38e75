/* Names that the theme leaves out, so that a screen reader can say them. */
(() => {
  const name = (selector, text) => {
    const unnamed = document.querySelectorAll(`${selector}:not([aria-label])`);
    for (const element of unnamed) {
      element.setAttribute("aria-label", text(element));
    }
  };
  const file = (nav) => {
    const title = nav.closest(".highlight")?.querySelector(".filename");
    const block = nav.closest("[id]")?.id ?? "";
    return `Code ${title?.textContent ?? ""} ${block}`;
  };
  const all = () => {
    name("[data-md-component=search]", () => "Search");
    name(".md-code__nav", file);
    name("a.md-annotation__index", (link) => `Annotation ${link.textContent}`);
  };
  const watched = { childList: true, subtree: true };
  new MutationObserver(all).observe(document.body, watched);
  all();
})();
