/* A worker that answers questions with the planner's own Python files. It runs
   under no page's policy, so only here may WebAssembly be compiled. */
import { loadMicroPython } from "./micropython/micropython.mjs";

const load = async () => {
  const at = new URL("planner-files.json", import.meta.url);
  const [runtime, files] = await Promise.all([
    loadMicroPython({ heapsize: 16 * 1024 * 1024 }),
    fetch(at).then((answer) => answer.json()),
  ]);
  const { FS } = runtime;
  for (const folder of ["/lockstep", "/lockstep/planner"]) FS.mkdir(folder);
  FS.writeFile("/lockstep/__init__.py", "");
  for (const [name, text] of Object.entries(files)) {
    FS.writeFile(`/lockstep/planner/${name}`, text);
  }
  runtime.runPython(
    "import sys; sys.path.append('/')\nfrom lockstep.planner.page import live",
  );
  return runtime.globals.get("live");
};

const python = load();
addEventListener("message", async ({ data }) => postMessage((await python)(...data)));
