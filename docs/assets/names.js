/* What the theme leaves out: names, so that a screen reader can say them, and
   a way to scroll a wide table by keyboard. */
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
  const reach = () => {
    for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) {
      if (wrap.scrollWidth > wrap.clientWidth) wrap.tabIndex = 0;
    }
  };
  const all = () => {
    reach();
    name("[data-md-component=search]", () => "Search");
    name(".md-code__nav", file);
    name("a.md-annotation__index", (link) => `Annotation ${link.textContent}`);
  };
  const watched = { childList: true, subtree: true };
  new MutationObserver(all).observe(document.body, watched);
  addEventListener("toggle", reach, true); // a note was unfolded
  addEventListener("resize", reach);
  all();
})();
