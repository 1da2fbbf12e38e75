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

const loaded = load();
const known = {};
const live = (runtime, module) => {
  if (!known[module]) {
    runtime.runPython(`from ${module} import live as found`);
    known[module] = runtime.globals.get("found");
  }
  return known[module];
};
addEventListener("message", async ({ data: [module, ...question] }) => {
  postMessage(live(await loaded, module)(...question));
});
