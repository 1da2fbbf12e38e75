/* The clock of a question: its button starts it, and starts it anew. */
(() => {
  let running;
  document.addEventListener("click", ({ target }) => {
    const button = target.closest?.(".clock button");
    if (!button) return;
    const [time, said] = button.parentElement.querySelectorAll("time, output");
    const end = performance.now() + 1000 * button.dataset.seconds;
    const show = () => {
      const left = Math.max(0, Math.ceil((end - performance.now()) / 1000));
      time.textContent = `${left} s`;
      if (left && time.isConnected) return;
      clearInterval(running);
      said.textContent = "Time. Now unfold.";
    };
    clearInterval(running);
    said.textContent = "Answer aloud.";
    show();
    running = setInterval(show, 200);
  });
})();
