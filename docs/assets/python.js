/* Questions for the project's Python, which a worker answers one at a time. One
   worker serves a whole visit; nothing is loaded before the first question. Each
   question gets exactly one answer: what Python says, or an Error with a line
   for the reader. */
(() => {
  const source = new URL("python-worker.js", document.currentScript.src);
  const patience = 10_000; // milliseconds that an answer may take
  const waiting = []; // questions, and how to answer them; the first is asked
  let worker;
  let clock;

  const settle = (said) => {
    clearTimeout(clock);
    const { resolve, reject } = waiting.shift();
    if (said.error === undefined) resolve(said);
    else reject(new Error(said.error));
    if (waiting.length) send();
  };
  // A worker that failed is never asked again: what is left of its Python, half
  // loaded or damaged, would damage the next one.
  const fail = (error) => {
    worker.terminate();
    worker = undefined;
    settle({ error });
  };
  const send = () => {
    worker ??= started();
    worker.postMessage(waiting[0].question);
  };
  const started = () => {
    const one = new Worker(source, { type: "module" });
    one.onmessage = ({ data: { begun, failed, said } }) => {
      if (one !== worker) return;
      if (begun) {
        const slow = "this takes too long to compute here; use smaller numbers";
        clock = setTimeout(fail, patience, slow);
      } else if (failed) fail(`${failed}; try again, or reload the page`);
      else settle(said);
    };
    one.onerror = () => {
      if (one !== worker) return;
      fail("Python did not load; check the connection, and try again");
    };
    return one;
  };
  window.askPython = (module, ...question) =>
    new Promise((resolve, reject) => {
      waiting.push({ question: [module, ...question], resolve, reject });
      if (waiting.length === 1) send();
    });
})();
