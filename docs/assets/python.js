/* Questions for the project's Python, which a worker answers in JSON. One worker
   serves a whole visit; nothing is loaded before the first question. */
(() => {
  const source = new URL("python-worker.js", document.currentScript.src);
  const waiting = [];
  let worker;
  window.askPython = (module, ...question) => {
    if (!worker) {
      worker = new Worker(source, { type: "module" });
      worker.onmessage = ({ data }) => waiting.shift().resolve(JSON.parse(data));
      worker.onerror = () => { for (const { reject } of waiting.splice(0)) reject(); };
    }
    worker.postMessage([module, ...question]);
    return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
  };
})();
