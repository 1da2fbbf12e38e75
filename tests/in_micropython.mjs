// Files of the project in MicroPython, and a program that uses them:
//   node in_micropython.mjs < {"files": {path: text}, "program": text}
import fs from "node:fs";
import { loadMicroPython } from "@micropython/micropython-webassembly-pyscript";

const { files, program } = JSON.parse(fs.readFileSync(0, "utf8"));
const python = await loadMicroPython({ heapsize: 16 * 1024 * 1024 });
for (const [path, text] of Object.entries(files)) {
  const folders = path.split("/").slice(0, -1);
  folders.reduce((above, name) => {
    const folder = `${above}/${name}`;
    if (!python.FS.analyzePath(folder).exists) python.FS.mkdir(folder);
    return folder;
  }, "");
  python.FS.writeFile(`/${path}`, text);
}
python.runPython("import sys; sys.path.append('/')");
python.runPython(program);
