/* The tools of practice are modules, fetched on the pages that hold one.
   Instant navigation gives each visit a new root; what a tool hears of a page
   goes with it. */
(() => {
  const here = document.currentScript.src;
  document$.subscribe(async () => {
    const root = document.querySelector(".practice");
    if (!root) return;
    try {
      const tool = new URL(`practice/${root.dataset.tool}.js`, here);
      const { start } = await import(tool.href);
      await start(root);
    } catch (error) {
      const line = document.createElement("p");
      line.setAttribute("role", "alert");
      line.textContent = `This page cannot start: ${error.message}. Reload it.`;
      root.replaceChildren(line);
    }
  });
})();
