/* Questions for the project's Python, which a worker answers. One worker serves a
   whole visit; nothing is loaded before the first question. Each question gets
   exactly one answer: what Python says, or an Error with a line for the reader. */
(() => {
  const source = new URL("python-worker.js", document.currentScript.src);
  const patience = 10_000; // milliseconds that an answer may take
  const waiting = new Map(); // by id: the question, and how to answer it
  let worker;
  let clock;
  let last = 0;

  const settle = (id, said) => {
    const one = waiting.get(id);
    if (!one) return; // of no question, or answered before
    waiting.delete(id);
    if (said?.error === undefined) one.resolve(said);
    else one.reject(new Error(said.error));
  };
  const stop = () => {
    clearTimeout(clock);
    worker.terminate();
    worker = undefined;
  };
  const send = (id) => {
    worker ??= started();
    worker.postMessage({ id, question: waiting.get(id).question });
  };
  // What does not end is ended, and the questions behind it are asked again.
  const late = (id) => {
    stop();
    settle(id, { error: "this takes too long to compute here; use smaller numbers" });
    for (const other of waiting.keys()) send(other);
  };
  const started = () => {
    const one = new Worker(source, { type: "module" });
    one.onmessage = ({ data: { id, begun, said } }) => {
      if (one !== worker) return;
      clearTimeout(clock);
      if (begun) clock = setTimeout(late, patience, id);
      else settle(id, said);
    };
    one.onerror = () => {
      if (one !== worker) return;
      stop();
      const error = "Python did not load; check the connection, and try again";
      for (const id of [...waiting.keys()]) settle(id, { error });
    };
    return one;
  };
  window.askPython = (module, ...question) =>
    new Promise((resolve, reject) => {
      last += 1;
      waiting.set(last, { question: [module, ...question], resolve, reject });
      send(last);
    });
})();
