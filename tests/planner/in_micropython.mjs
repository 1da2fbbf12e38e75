// The planner's own files in MicroPython, on inputs that are given as JSON:
//   node in_micropython.mjs PLANNER_FOLDER PROGRAM < inputs
import fs from "node:fs";
import { loadMicroPython } from "@micropython/micropython-webassembly-pyscript";

const [folder, program] = process.argv.slice(2);
const python = await loadMicroPython({ heapsize: 16 * 1024 * 1024 });
for (const place of ["/lockstep", "/lockstep/planner"]) python.FS.mkdir(place);
python.FS.writeFile("/lockstep/__init__.py", "");
for (const name of fs.readdirSync(folder).filter((n) => n.endsWith(".py"))) {
  const file = fs.readFileSync(`${folder}/${name}`);
  python.FS.writeFile(`/lockstep/planner/${name}`, file);
}
python.FS.writeFile("/inputs.json", fs.readFileSync(0));
python.runPython("import sys; sys.path.append('/')");
python.runPython(fs.readFileSync(program, "utf8"));
