// Estimation questions in MicroPython, as the browser's worker runs them:
//   node in_micropython.mjs PLANNER_FOLDER PRACTICE_FOLDER PROGRAM FILE... < inputs
import fs from "node:fs";
import { loadMicroPython } from "@micropython/micropython-webassembly-pyscript";

const [planner, practice, program, ...files] = process.argv.slice(2);
const python = await loadMicroPython({ heapsize: 16 * 1024 * 1024 });
python.FS.mkdir("/lockstep");
python.FS.writeFile("/lockstep/__init__.py", "");
const all = (folder) => fs.readdirSync(folder).filter((name) => name.endsWith(".py"));
for (const [name, folder, some] of [
  ["planner", planner, all(planner)],
  ["practice", practice, files],
]) {
  python.FS.mkdir(`/lockstep/${name}`);
  for (const file of some) {
    python.FS.writeFile(`/lockstep/${name}/${file}`, fs.readFileSync(`${folder}/${file}`));
  }
}
python.FS.writeFile("/inputs.json", fs.readFileSync(0));
python.runPython("import sys; sys.path.append('/')");
python.runPython(fs.readFileSync(program, "utf8"));
