/* A worker that asks for estimates with the very files that the tests check. It
   runs under no page's policy, so only here may WebAssembly be compiled. */
import { loadMicroPython } from "./micropython/micropython.mjs";

const at = (name) => new URL(name, import.meta.url);
const json = async (name) => (await fetch(at(name))).json();

const load = async () => {
  const [runtime, planner, practice] = await Promise.all([
    loadMicroPython({ heapsize: 16 * 1024 * 1024 }),
    json("planner-files.json"),
    json("estimates-files.json"),
  ]);
  const { FS } = runtime;
  FS.mkdir("/lockstep");
  FS.writeFile("/lockstep/__init__.py", "");
  for (const [folder, files] of Object.entries({ planner, practice })) {
    FS.mkdir(`/lockstep/${folder}`);
    for (const [name, text] of Object.entries(files)) {
      FS.writeFile(`/lockstep/${folder}/${name}`, text);
    }
  }
  runtime.runPython(
    "import sys; sys.path.append('/')\nfrom lockstep.practice.estimates import live",
  );
  return runtime.globals.get("live");
};

const python = load();
addEventListener("message", async ({ data }) => postMessage((await python)(...data)));
