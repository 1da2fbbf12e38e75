/* Cards: ts-fsrs says when one comes back, this browser keeps it. */
import { createEmptyCard, fsrs, Rating } from "../ts-fsrs/index.mjs";
import { bank, button, carried, choice, download, make, shelf, shuffled, today } from "./bank.js";

const scheduler = fsrs();
const GRADES = ["Again", "Hard", "Good", "Easy"];
const place = shelf("lockstep.cards", { version: 1, cards: {}, undo: null, filter: {} });

const number = (value) => Number.isFinite(value) && value >= 0;
const date = (value) => typeof value === "string" && !Number.isNaN(Date.parse(value));
const FIELDS = {
  due: [date, "a date"],
  last_review: [date, "a date"],
  state: [(value) => [0, 1, 2, 3].includes(value), "0, 1, 2 or 3"],
  ...Object.fromEntries(
    ["stability", "difficulty", "elapsed_days", "scheduled_days", "learning_steps", "reps", "lapses"]
      .map((name) => [name, [number, "a number of 0 or more"]]),
  ),
};

const record = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** The cards of a file, or an error that names what is wrong with it. */
const parse = (text) => {
  let given;
  try {
    given = JSON.parse(text);
  } catch {
    throw new Error("it is not JSON");
  }
  if (!record(given?.cards)) throw new Error("it has no \"cards\", so it was not exported here");
  if (given.version !== 1) throw new Error(`its version is ${given.version}; this page reads 1`);
  return Object.entries(given.cards).map(([id, card]) => {
    const checked = Object.entries(FIELDS).map(([name, [fits, what]]) => {
      const value = card?.[name];
      if (!fits(value)) {
        throw new Error(`card "${id}": ${name} is ${JSON.stringify(value)}; it must be ${what}`);
      }
      return [name, value];
    });
    return [id, Object.fromEntries(checked)];
  });
};

/** How long, in the largest unit that is not zero. */
const span = (milliseconds) => {
  const minutes = Math.max(1, Math.round(milliseconds / 60_000));
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 24 ? `${hours} h` : `${Math.round(hours / 24)} d`;
};

let current; // the tool of the page that is shown

const typing = ({ target }) => target.closest?.("input, textarea, select, [contenteditable]");

addEventListener("keydown", (event) => {
  const { key } = event;
  if (!current?.root.isConnected || typing(event)) return;
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  // A button, a link or a note that has the focus keeps its own key.
  if (key === " " && event.target.closest("button, a, summary, label")) return;
  const act = { " ": () => current.reveal(), u: () => current.undo() }[key]
    ?? (/^[1-4]$/.test(key) ? () => current.grade(key - 1) : undefined);
  if (act?.()) event.preventDefault();
});

export const start = async (root) => {
  const { items: all, topics, levels, renamed } = await bank();
  // The core first. Neighbors differ in topic. Estimates come last, since drawing
  // one loads the planner, and who has just opened the page has not asked for it.
  const late = ({ tier, sort }) => (tier === "core" ? 0 : sort === "estimate" ? 2 : 1);
  const items = shuffled(all, 1).sort((one, other) => late(one) - late(other));
  let item; // the card on the table
  let turns; // and how often it has been there
  let early; // or the id of one that is taken before it is due
  let shown = false; // with its answer
  let waiting;

  const said = make("p", { role: "status", className: "practice-said" });
  const filters = make("form", { className: "practice-ask" });
  const counts = make("p", { className: "practice-counts" });
  const card = make("section", { className: "practice-card", ariaLabel: "Card" });
  const bar = make("div", { className: "practice-bar" });
  const tools = make("div", { className: "practice-tools" });
  const file = make("input", { type: "file", accept: ".json,application/json", hidden: true });

  const save = (state) => {
    if (!place.write(state)) say("This browser keeps nothing: export before you leave.");
  };
  const say = (text) => { said.textContent = text; };

  const chosen = () => {
    const wanted = [...new FormData(filters)].filter(([, value]) => value);
    return items.filter((one) => wanted.every(([name, value]) => one[name] === value));
  };
  const standing = () => {
    const { cards } = place.read();
    const now = Date.now();
    const due = ({ id }) => Date.parse(cards[id].due);
    const known = chosen().filter(({ id }) => cards[id]).sort((a, b) => due(a) - due(b));
    return {
      cards,
      due: known.filter((one) => due(one) <= now),
      fresh: chosen().filter(({ id }) => !cards[id]),
      later: known.filter((one) => due(one) > now),
      until: (one) => due(one) - now,
    };
  };
  const next = ({ due, fresh, later }) =>
    [...due, ...fresh, ...later].find(({ id }) => id === early) ?? due[0] ?? fresh[0];

  const heading = (text) => make("h2", { className: "practice-title", tabIndex: -1 }, text);
  const focus = () => card.querySelector("[tabindex]")?.focus();

  const face = () => {
    const named = `${topics[item.topic]}, ${item.level ?? item.sort}`;
    card.replaceChildren(
      make("p", { className: "practice-kind" }, named),
      heading(item.title),
      make("div", {}, item.ask(turns)),
    );
    if (shown) {
      const answer = make("div", { className: "practice-answer", tabIndex: -1, role: "group", ariaLabel: "Answer" });
      answer.append(...item.answer(turns, "h3"), make("p", {}, make("a", { href: item.page }, "Its page")));
      card.append(answer);
    }
  };
  const keys = ({ cards }) => {
    bar.classList.remove("practice-grades");
    if (!shown) {
      bar.replaceChildren(button("Show the answer", reveal, { className: "md-button practice-wide" }));
      bar.firstChild.append(make("kbd", {}, "space"));
      return;
    }
    const now = new Date();
    const ahead = scheduler.repeat(cards[item.id] ?? createEmptyCard(now), now);
    bar.classList.add("practice-grades");
    bar.replaceChildren(...GRADES.map((name, index) => {
      const made = button("", () => grade(index));
      const wait = span(ahead[Rating[name]].card.due - now);
      made.append(make("kbd", {}, `${index + 1}`), name, make("small", {}, wait));
      return made;
    }));
  };
  const empty = ({ later, until }) => {
    const [first] = later;
    card.replaceChildren(heading(first ? "Nothing is due" : "No card is like this"));
    bar.replaceChildren();
    if (!first) return;
    card.append(make("p", {}, `The next one, ${first.title}, is due in ${span(until(first))}.`));
    bar.append(button("Take it now", () => {
      early = first.id;
      turn();
      focus();
    }, { className: "md-button practice-wide" }));
  };
  const render = () => {
    const now = standing();
    counts.textContent =
      `${now.due.length} due, ${now.fresh.length} new, ${now.later.length} later`;
    tools.querySelector("[name=undo]").disabled = !place.read().undo;
    if (item) {
      face();
      keys(now);
      return;
    }
    empty(now);
    if (!now.later.length) return;
    // A minute's wait ends by itself; nobody sits through a longer one.
    const again = () => { if (root.isConnected && !item) turn(); };
    waiting = setTimeout(again, Math.min(now.until(now.later[0]), 3_600_000) + 50);
  };
  /** Puts the next card on the table, its answer hidden. */
  const turn = () => {
    clearTimeout(waiting);
    const now = standing();
    item = next(now);
    turns = now.cards[item?.id]?.reps ?? 0;
    early = undefined;
    shown = false;
    render();
  };

  const reveal = () => {
    if (shown || !item) return false;
    shown = true;
    render();
    const answer = card.querySelector(".practice-answer");
    answer.focus({ preventScroll: true });
    // On a phone it may begin behind the buttons.
    if (answer.getBoundingClientRect().top > innerHeight / 2) answer.scrollIntoView();
    return true;
  };
  const grade = (index) => {
    if (!shown) return false;
    const state = place.read();
    const now = new Date();
    const before = state.cards[item.id] ?? null;
    const { card: after } = scheduler.next(before ?? createEmptyCard(now), now, Rating[GRADES[index]]);
    state.cards[item.id] = after;
    state.undo = { id: item.id, card: before };
    say(`${GRADES[index]}: back in ${span(after.due - now)}.`);
    save(state);
    turn();
    focus();
    return true;
  };
  const undo = () => {
    const state = place.read();
    if (!state.undo) return false;
    const { id, card: before } = state.undo;
    if (before) state.cards[id] = before;
    else delete state.cards[id];
    state.undo = null;
    say("The last grade is undone.");
    save(state);
    early = id;
    turn();
    focus();
    return true;
  };

  const give = () => {
    const { version, cards } = place.read();
    const text = JSON.stringify({ version, cards }, null, 1);
    download(`lockstep-cards-${today()}.json`, "application/json", text);
    say(`${Object.keys(cards).length} cards exported.`);
  };
  const take = async () => {
    const [given] = file.files;
    if (!given) return;
    try {
      const found = Object.entries(carried(Object.fromEntries(parse(await given.text())), renamed));
      const state = place.read();
      const kept = new Map(Object.entries(state.cards));
      const newer = found.filter(([id, { last_review }]) =>
        !kept.has(id) || Date.parse(last_review) > Date.parse(kept.get(id).last_review));
      for (const [id, one] of newer) kept.set(id, one);
      state.cards = Object.fromEntries(kept);
      state.undo = null;
      say(`${given.name}: ${newer.length} of ${found.length} cards are newer, and taken.`);
      save(state);
      turn();
    } catch (error) {
      say(`${given.name} is refused: ${error.message}. Nothing has changed.`);
    }
    file.value = "";
  };
  const reset = () => {
    const state = place.read();
    const many = Object.keys(state.cards).length;
    if (!confirm(`Forget the progress of ${many} cards? Only an exported file brings it back.`)) return;
    say(`${many} cards forgotten.`);
    save({ ...state, cards: {}, undo: null });
    turn();
  };

  const before = place.read();
  if (Object.keys(before.cards).some((id) => renamed[id])) {
    save({ ...before, cards: carried(before.cards, renamed), undo: null });
  }
  const { filter } = before;
  const count = (key) => (id) => items.filter((one) => one[key] === id).length;
  const named = Object.entries(topics)
    .map(([id, name]) => [id, count("topic")(id), name])
    .filter(([, many]) => many)
    .map(([id, many, name]) => [id, `${name} (${many})`]);
  const ranked = levels.map((id) => [id, `${id} (${count("level")(id)})`]);
  const sorted = Object.entries({ question: "questions", prompt: "first moves", estimate: "estimates" })
    .map(([id, name]) => [id, `${name} (${count("sort")(id)})`]);
  filters.append(
    choice("Topic", "topic", [["", `all (${items.length})`], ...named], filter.topic),
    choice("Level", "level", [["", "all"], ...ranked], filter.level),
    choice("Kind", "sort", [["", "all"], ...sorted], filter.sort),
  );
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("change", () => {
    save({ ...place.read(), filter: Object.fromEntries(new FormData(filters)) });
    turn();
  });
  file.addEventListener("change", take);
  tools.append(
    button("Undo", undo, { name: "undo" }),
    button("Export", give),
    button("Import", () => file.click()),
    button("Reset", reset),
    file,
  );
  tools.firstChild.append(make("kbd", {}, "u"));

  root.replaceChildren(filters, counts, card, bar, said, tools);
  turn();
  current = { root, reveal, grade, undo };
};
