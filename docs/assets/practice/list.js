/* The list of questions, narrowed to what one looks for. What is chosen stands
   in the address, so that a narrowed list can be sent to somebody. */
import { button, carried, choice, make, published, shelf } from "./bank.js";

/** Each row of a question: what it is, and where it leads. */
const rows = (article) =>
  [...article.querySelectorAll("tbody tr:has(a)")].map((row) => {
    const [topic, , kind, level, takes] = [...row.cells].map((cell) => cell.textContent.trim());
    const time = Number.parseInt(takes, 10) < 10 ? "two minutes" : "an hour";
    const link = row.querySelector("a");
    const id = link.getAttribute("href").split("/").at(-2);
    return { row, link, id, topic, kind, level, time, said: row.textContent.toLowerCase() };
  });

export const start = async (root) => {
  const found = rows(root.closest("article"));
  const named = (key) => [...new Set(found.map((one) => one[key]))].map((name) => [name, name]);
  const given = new URLSearchParams(location.search);
  const words = make("input", { type: "search", name: "words", value: given.get("words") ?? "" });
  const form = make(
    "form",
    { className: "practice-ask" },
    choice("Topic", "topic", [["", "all"], ...named("topic")], given.get("topic")),
    choice("Kind", "kind", [["", "all"], ...named("kind")], given.get("kind")),
    choice("Level", "level", [["", "all"], ...named("level")], given.get("level")),
    choice("Time", "time", [["", "all"], ...named("time")], given.get("time")),
    make("label", {}, "Words", words),
  );
  const counted = make("p", { role: "status", className: "practice-counts" });

  const wanted = () => Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
  const narrow = () => {
    const { words: text = "", ...same } = wanted();
    const asked = text.toLowerCase().split(/\s+/);
    for (const one of found) {
      one.row.hidden = !(
        Object.entries(same).every(([key, value]) => one[key] === value) &&
        asked.every((word) => one.said.includes(word))
      );
    }
    const many = found.filter(({ row }) => !row.hidden).length;
    counted.textContent = `${many} of ${found.length} questions`;
    ask.disabled = !many;
  };
  /* What was never answered as a card comes first, then what was longest ago. */
  const next = async () => {
    const { renamed } = await published();
    const cards = carried(shelf("lockstep.cards", {}).read().cards ?? {}, renamed);
    const when = ({ id }) => Date.parse(cards[id]?.last_review ?? 0);
    const open = found.filter(({ row }) => !row.hidden);
    const oldest = Math.min(...open.map(when));
    const drawn = open.filter((one) => when(one) === oldest);
    return drawn[Math.floor(Math.random() * drawn.length)];
  };
  const ask = button("Ask me one", async () => (await next()).link.click());

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    const query = new URLSearchParams(wanted()).toString();
    history.replaceState(history.state, "", `${location.pathname}${query && `?${query}`}`);
    narrow();
  });
  root.replaceChildren(form, counted, make("p", {}, ask));
  narrow();

  // A question is found by its own words too: they come once somebody searches.
  const learn = async () => {
    const { questions } = await published();
    const text = new Map(questions.map(({ id, question }) => [id, question]));
    for (const one of found) one.said += (text.get(one.id) ?? "").toLowerCase();
    narrow();
  };
  if (words.value) await learn();
  else words.addEventListener("focus", learn, { once: true });
};
