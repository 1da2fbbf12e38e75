/* What the theme leaves out: names, so that a screen reader can say them, and
   a way to scroll a wide table or block of code by keyboard. */
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
    const scrolling = ".md-typeset__scrollwrap, pre > code";
    const wide = [...document.querySelectorAll(scrolling)].filter(
      (wrap) => wrap.scrollWidth > wrap.clientWidth && wrap.tabIndex < 0,
    );
    for (const wrap of wide) wrap.tabIndex = 0;
  };
  // Two lists in the navigation, of one name: the second says where it belongs.
  // Where a section has an index, its label is an icon, and its title has the
  // name.
  const heading = (nav) =>
    document.getElementById(nav?.getAttribute("aria-labelledby")) ?? nav;
  const title = (nav) => nav?.querySelector(":scope > .md-nav__title");
  const called = (nav) =>
    nav?.ariaLabel ||
    heading(nav)?.textContent.trim() ||
    title(nav)?.textContent.trim();
  const distinguish = () => {
    const seen = new Set();
    for (const nav of document.querySelectorAll("nav.md-nav")) {
      const unnamed = !nav.ariaLabel && !heading(nav).textContent.trim();
      if (unnamed || seen.has(called(nav))) {
        const outer = called(nav.parentElement.closest("nav"));
        nav.setAttribute("aria-label", `${outer}: ${called(nav)}`);
        nav.removeAttribute("aria-labelledby");
      }
      seen.add(called(nav));
    }
  };
  const all = () => {
    reach();
    distinguish();
    name("[data-md-component=search]", () => "Search");
    name(".md-code__nav", file);
    name("a.md-annotation__index", (link) => `Annotation ${link.textContent}`);
  };
  // Once for all changes before the next frame: to measure is to lay out.
  let due = 0;
  const soon = () => {
    due ||= requestAnimationFrame(() => {
      due = 0;
      all();
    });
  };
  // The theme takes a block out of the tab order that it measured while folded.
  const order = { attributes: true, attributeFilter: ["tabindex"] };
  const watched = { childList: true, subtree: true, ...order };
  new MutationObserver(soon).observe(document.body, watched);
  addEventListener("toggle", reach, true); // a note was unfolded
  addEventListener("resize", reach);
  all();
})();
