/* The study plans: each item gets a box, and the browser keeps what is checked.
   An item is known by its plan and its link, so that it may be reworded. */
import { button, download, make, shelf, today } from "./bank.js";

const kept = shelf("lockstep-study", {});

/** Each plan: a heading, and the items of the list that follows it. */
const plans = (article) =>
  [...article.querySelectorAll("h2[id]")].flatMap((heading) => {
    let list = heading.nextElementSibling;
    while (list && list.tagName === "P") list = list.nextElementSibling;
    if (list?.tagName !== "UL") return [];
    const seen = {};
    const items = [...list.children].map((item) => {
      const link = item.querySelector("a")?.getAttribute("href") ?? "";
      seen[link] = (seen[link] ?? 0) + 1;
      return { item, id: `${heading.id} ${link} ${seen[link]}` };
    });
    return [{ name: heading.firstChild.textContent.trim(), items }];
  });

export const start = (root) => {
  const found = plans(root.closest("article"));
  const status = make("p", { role: "status" });
  const file = make("input", { type: "file", accept: ".json,application/json", hidden: true });
  const boxes = new Map();

  const show = () => {
    const done = kept.read();
    for (const [id, box] of boxes) box.checked = Boolean(done[id]);
    const begun = found
      .map(({ name, items }) => ({ name, items, next: items.find(({ id }) => !done[id]) }))
      .filter(({ items }) => items.some(({ id }) => done[id]));
    const said = begun.map(({ name, items, next }) => {
      const count = items.filter(({ id }) => done[id]).length;
      const line = make("span", {}, `${name}: ${count} of ${items.length} done. `);
      const link = next?.item.querySelector("a");
      if (link) line.append("Continue with ", make("a", { href: link.href }, link.textContent), ". ");
      return line;
    });
    status.replaceChildren(...(said.length ? said : ["Nothing is checked off yet."]));
  };
  const save = (done) => {
    const stays = kept.write(done);
    show();
    if (!stays) status.append(" This browser keeps nothing: export before you leave.");
  };

  for (const { items } of found) {
    for (const { item, id } of items) {
      const box = make("input", { type: "checkbox", ariaLabel: item.textContent.trim() });
      box.addEventListener("change", () => {
        const done = kept.read();
        if (box.checked) done[id] = today();
        else delete done[id];
        save(done);
      });
      boxes.set(id, box);
      item.classList.add("study-item");
      item.prepend(box);
    }
  }
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    file.value = "";
    try {
      const given = JSON.parse(await chosen.text());
      if (given?.made !== "lockstep study" || typeof given.done !== "object") throw new Error();
      save({ ...kept.read(), ...given.done });
    } catch {
      status.textContent = `${chosen.name} is not an exported study plan; nothing has changed.`;
    }
  });
  const out = () => {
    const text = JSON.stringify({ made: "lockstep study", done: kept.read() });
    download(`lockstep-study-${today()}.json`, "application/json", text);
  };
  root.replaceChildren(
    status,
    make(
      "p",
      { className: "practice-bar" },
      button("Export", out),
      button("Import", () => file.click()),
      file,
    ),
  );
  show();
};
