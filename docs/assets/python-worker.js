/* A worker that runs the project's own Python files, the ones that its tests
   check, in MicroPython. It runs under no page's policy, so only here may
   WebAssembly be compiled. */
import { loadMicroPython } from "./micropython/micropython.mjs";

const load = async () => {
  const at = new URL("python-files.json", import.meta.url);
  const [runtime, files] = await Promise.all([
    loadMicroPython({ heapsize: 16 * 1024 * 1024 }),
    fetch(at).then((answer) => answer.json()),
  ]);
  const { FS } = runtime;
  for (const [path, text] of Object.entries(files)) {
    const folders = path.split("/").slice(0, -1);
    folders.reduce((above, name) => {
      const folder = `${above}/${name}`;
      if (!FS.analyzePath(folder).exists) FS.mkdir(folder);
      return folder;
    }, "");
    FS.writeFile(`/${path}`, text);
  }
  runtime.runPython("import sys; sys.path.append('/')");
  return runtime;
};

const start = async () => {
  const runtime = await load();
  runtime.runPython("from lockstep.practice.browser import answered");
  return runtime.globals.get("answered");
};

/* Python answers whatever goes wrong in it. If it has not, its files did not
   come or its memory is damaged. Its proxies live in this worker's globals, so
   it starts only once in a worker; the page ends a worker that failed. */
let answered;
addEventListener("message", async ({ data: question }) => {
  try {
    answered ??= await start();
    postMessage({ begun: true });
    postMessage({ said: JSON.parse(answered(JSON.stringify(question))) });
  } catch (error) {
    postMessage({ failed: `Python does not run here (${error?.message ?? error})` });
  }
});
