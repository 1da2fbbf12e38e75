/* A mock interview: five stages by the clock, then ten marks. */
import {
  bank, button, choice, clock, download, make, MINUTE, shelf, shuffled, site, task, today,
} from "./bank.js";

/* Where a stage draws its question, fast prompt and estimate. Judgment. */
export const STAGES = {
  clarify: {
    topics: ["interview", "arithmetic", "hardware", "design"],
    say: "Ask for sizes aloud. Write down what each number decides, and what cannot hold.",
  },
  build: {
    topics: ["trainer", "processes", "ddp", "data", "testing"],
    say: "Type it, and speak while you type. Run something after each cell.",
  },
  break: {
    topics: ["faults", "checkpointing", "data", "numerics", "operations", "fleets", "bio"],
    prompts: ["stops", "wrong"],
    say: "Follow one failure of what you built to its end, and say how you would prove it.",
  },
  scale: {
    topics: ["memory", "sharding", "communication", "model-parallel", "performance", "hardware",
      "data-scale", "little-communication", "rl", "bio"],
    prompts: ["slow"],
    estimate: true,
    say: "The same at ten times the size: estimate what is short first.",
  },
  defend: {
    topics: ["interview", "operations", "fleets", "design", "testing", "rl", "performance", "numerics"],
    say: "End with one paragraph, without notes: the choice, its price, the metric that would reverse it.",
  },
};

/* What an interview is about: which kinds of questions it prefers, whether each
   stage keeps to its own topics, and which list of the page has its tasks. */
const FORMS = {
  coding: { kinds: [], own: true, tasks: ".mock-tasks a" },
  design: { kinds: ["design", "judge"], own: true, tasks: ".mock-rounds a" },
  debugging: { kinds: ["debug", "incident"], own: true },
  "deep dive": { kinds: ["explain", "compare", "estimate"], own: false },
};

const place = shelf("lockstep.mock", { version: 1, session: null, history: [] });
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);

/** What each stage asks: the seed decides, and a question is drawn once. */
const draw = ({ form, level, topic, seed }, { stages, levels, items }, tasks) => {
  const { kinds, own } = FORMS[form];
  const used = new Set();
  const first = (found) => {
    if (found.length) used.add(found[0].id);
    return found.slice(0, 1).map(({ id }) => id);
  };
  const within = (item) => levels.indexOf(item.level) <= levels.indexOf(level);
  const open = shuffled(items, seed).filter(within);
  const left = () => open.filter(({ id }) => !used.has(id));
  const wanted = (item) => 8 * kinds.includes(item.kind)
    + 4 * (item.topic === topic) + 2 * (item.tier === "core") + (item.level === level);
  const plan = Object.fromEntries(stages.map(({ id }) => {
    const { topics, prompts = [], estimate } = STAGES[id];
    const of = (sort) => left()
      .filter((item) => item.sort === sort)
      .filter((item) => (own || !topic ? topics.includes(item.topic) : item.topic === topic))
      .sort((one, other) => wanted(other) - wanted(one));
    const asked = left().filter((item) => prompts.includes(item.group));
    return [id, [...first(asked), ...(estimate ? first(of("estimate")) : []), ...first(of("question"))]];
  }));
  // While the bank is small: better a question from elsewhere than none.
  const asks = (id) => items.find((item) => item.id === id).sort === "question";
  for (const ids of Object.values(plan)) {
    if (!ids.some(asks)) ids.push(...first(left().filter(({ sort }) => sort === "question")));
  }
  return { task: shuffled(tasks.map((id) => ({ id })), seed)[0]?.id, plan };
};

/** The two lines to practice next, as `Rubric.weakest` in rubric.py. */
const weakest = ({ lines, levels }, marks, level) => {
  const own = ({ from }) => levels.indexOf(from) <= levels.indexOf(level);
  const order = [...lines].sort((one, other) =>
    marks[one.id] - marks[other.id] || own(other) - own(one));
  return order.slice(0, 2);
};

/** Three links for two lines: the first of each, then the next there is. */
const advice = (lines) => {
  const [one, other] = lines.map((line) => line.links.map((target) =>
    ({ name: `${line.name}: ${target}`, address: new URL(target, site).href })));
  return [one[0], other[0], ...one.slice(1), ...other.slice(1)].slice(0, 3);
};

/** The whole as Markdown, with what to practice at its end. */
const markdown = (session, { stages, lines, ...rubric }, titles) => {
  const { form = "coding", level, minutes, topic, seed, spent, notes, marks } = session;
  const cell = (text) => text.replaceAll("|", "\\|");
  const weak = weakest({ lines, ...rubric }, marks, level);
  return [
    `# Mock interview of ${session.day}`,
    "",
    `${capital(form)}, ${level}, ${minutes} minutes, topic ${topic || "any"}, draw ${seed}`,
    "",
    "| stage | planned | taken | drawn |",
    "|---|--:|--:|---|",
    ...stages.map(({ id, minutes: planned }) =>
      `| ${id} | ${planned[minutes]}:00 | ${clock(spent[id] ?? 0)} | `
        + `${titles[id].map(({ title, page }) => `[${cell(title)}](${page})`).join(", ")} |`),
    "",
    ...stages.filter(({ id }) => notes[id]?.trim()).flatMap(({ id }) =>
      [`## Notes on ${id}`, "", notes[id].trim(), ""]),
    "## Marks",
    "",
    "| line | mark | for |",
    "|---|--:|---|",
    ...lines.map((line) =>
      `| ${line.name} | ${marks[line.id]} | ${cell(line.marks[marks[line.id]])} |`),
    "",
    "## Practice next",
    "",
    `The weakest: **${weak[0].name}** (${marks[weak[0].id]})`
      + ` and **${weak[1].name}** (${marks[weak[1].id]}).`,
    "",
    ...advice(weak).map(({ name, address }) => `- [${name}](${address})`),
    "",
  ].join("\n");
};

export const start = async (root) => {
  const all = await bank();
  const { stages, levels, lines, topics } = all;
  const byId = new Map(all.items.map((item) => [item.id, item]));
  for (const [old, now] of Object.entries(all.renamed)) byId.set(old, byId.get(now));
  const tasks = (form) => (FORMS[form].tasks
    ? [...document.querySelectorAll(FORMS[form].tasks)].map(({ href }) => href.slice(site.href.length))
    : []);
  let ticking;
  let session;
  let drill;

  const said = make("p", { role: "status", className: "practice-said" });
  const view = make("div", {});
  const say = (text) => { said.textContent = text; };
  const save = (change = {}) => {
    const kept = place.write({ ...place.read(), session, ...change });
    if (!kept) say("This browser keeps nothing: a reload ends the interview.");
  };
  const show = (heading, ...parts) => {
    const title = make("h2", { className: "practice-title", tabIndex: -1 }, heading);
    view.replaceChildren(title, ...parts);
    return title;
  };
  const note = (text, given = {}) => make("p", given, text);
  const bar = (...buttons) => make("div", { className: "practice-bar" }, ...buttons);

  const links = (weak) => make("ul", {}, ...advice(weak).map(({ name, address }) =>
    make("li", {}, make("a", { href: address }, name))));

  // ---- before
  const setUp = () => {
    session = null;
    const { history } = place.read();
    const names = Object.entries(topics).filter(([id]) =>
      all.items.some(({ topic, sort }) => topic === id && sort === "question"));
    const seed = make("input", { name: "seed", value: `${1000 + Math.floor(9000 * Math.random())}`, inputMode: "numeric", required: true, pattern: "[0-9]{1,6}" });
    const form = make(
      "form",
      {},
      make(
        "div",
        { className: "practice-ask" },
        choice("Kind", "form", Object.keys(FORMS).map((id) => [id, id])),
        choice("Level", "level", levels.map((id) => [id, id]), levels[1]),
        choice("Minutes", "minutes", Object.keys(stages[0].minutes).map((id) => [id, id])),
        choice("Topic, where a stage has it", "topic", [["", "any"], ...names]),
        make("label", {}, "Draw: its number repeats it", seed),
      ),
      bar(make("button", { className: "md-button practice-wide" }, "Start the clock")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      begin(Object.fromEntries(new FormData(form)));
    });
    return show("A new interview", form, ...past(history));
  };
  const past = (history) => {
    if (!history.length) return [];
    const recent = history.slice(0, 3);
    const mean = Object.fromEntries(lines.map(({ id }) =>
      [id, sum(recent.map(({ marks }) => marks[id] ?? 0)) / recent.length]));
    const weak = weakest(all, mean, recent[0].level);
    const rows = history.map((one) => make(
      "li",
      {},
      `${one.day}, ${one.level}, ${one.minutes} minutes `,
      button("Save", () => download(`mock-interview-${one.day}.md`, "text/markdown", one.markdown), { ariaLabel: `Save the summary of ${one.day}` }),
    ));
    return [
      make("h3", {}, "What to practice next"),
      note(`Lowest over the last ${recent.length === 1 ? "interview" : recent.length}: ${weak.map(({ name }) => name).join(" and ")}.`),
      links(weak),
      make("h3", {}, "Interviews so far"),
      make("ol", { className: "mock-history" }, ...rows),
      button("Forget them", () => {
        if (!confirm(`Forget ${history.length} interviews? Only saved summaries remain.`)) return;
        save({ history: [] });
        setUp().focus();
      }),
    ];
  };
  const begin = async ({ form, level, minutes, topic, seed }) => {
    const chosen = { form, level, minutes, topic, seed: seed.trim() };
    const now = Date.now();
    session = {
      ...chosen, ...draw(chosen, all, tasks(form)), day: today(),
      stage: 0, spent: {}, since: now, seen: now, pushed: {}, notes: {}, marks: {},
    };
    save();
    say("The clock runs.");
    (await open()).focus();
  };

  // ---- by the clock
  const planned = ({ minutes }) => minutes[session.minutes] * MINUTE;
  const running = () => (session.since ? Date.now() - session.since : 0);
  const taken = ({ id }) =>
    (session.spent[id] ?? 0) + (stages[session.stage]?.id === id ? running() : 0);
  /** Puts the running time down; the clock goes on if `on`. */
  const settle = (on, at = Date.now()) => {
    const { id } = stages[session.stage];
    if (session.since) session.spent[id] = (session.spent[id] ?? 0) + at - session.since;
    session.since = on ? at : null;
  };

  const open = async () => {
    drill = session.task && await task(session.task);
    return session.stage < stages.length ? stage() : score();
  };

  const items = (id) => session.plan[id].map((one) => byId.get(one)).filter(Boolean);
  const folded = (name, ...inside) => make("details", {}, make("summary", {}, name), ...inside);

  const pushbacks = (item) => {
    const many = item.pushed;
    const list = make("ol", { className: "mock-pushbacks" });
    const more = button("", () => {
      session.pushed[item.id] = (session.pushed[item.id] ?? 0) + 1;
      save();
      fill();
      list.lastElementChild.focus();
    });
    const fill = () => {
      const count = Math.min(session.pushed[item.id] ?? 0, many);
      for (let one = list.childElementCount; one < count; one += 1) {
        const met = folded("How to meet it", item.meet(one));
        list.append(make("li", { tabIndex: -1 }, item.push(one), met));
      }
      more.textContent = `I have answered: push back (${count} of ${many})`;
      more.hidden = count === many;
    };
    fill();
    return [list, more];
  };
  const asked = (item) => {
    const turn = Number(session.seed);
    return make(
      "section",
      { className: "practice-card", ariaLabel: item.title },
      make("h3", {}, item.title),
      make("div", {}, item.ask(turn)),
      ...(item.pushed ? pushbacks(item) : []),
      folded("What holds", ...item.answer(turn, "h4"), make("p", {}, make("a", { href: item.page }, "Its page"))),
    );
  };

  const stage = () => {
    clearInterval(ticking);
    const now = stages[session.stage];
    const { id } = now;
    const last = session.stage === stages.length - 1;
    const timers = make("p", { role: "timer", className: "mock-clock" });
    const own = make("strong", {});
    const whole = make("span", {});
    timers.append(own, whole);
    const steps = make("ol", { className: "mock-stages" }, ...stages.map((one, index) => {
      const step = make("li", {}, `${one.id} ${one.minutes[session.minutes]} min`);
      if (index === session.stage) step.setAttribute("aria-current", "step");
      return step;
    }));

    let before = planned(now) - taken(now);
    const tick = () => {
      if (!root.isConnected) return clearInterval(ticking);
      const left = planned(now) - taken(now);
      const limit = sum(stages.map(planned));
      const rest = limit - sum(stages.map(taken));
      const tell = (one, of) => `${clock(one)} ${one < 0 ? "over" : "left of"} ${clock(of)}`;
      own.textContent = `${capital(id)}: ${tell(left, planned(now))}`;
      whole.textContent = `whole: ${tell(rest, limit)}${session.since ? "" : ", paused"}`;
      timers.classList.toggle("mock-over", left < 0);
      // A listener hears two words a stage, and no countdown.
      if (before > MINUTE && left <= MINUTE) say(`One minute left of ${id}.`);
      if (before > 0 && left <= 0) say(last ? "Time. Score yourself." : `Time: ${stages[session.stage + 1].id} is next.`);
      before = left;
      if (session.since) {
        session.seen = Date.now();
        save();
      }
    };
    const pause = button("", () => {
      settle(!session.since);
      save();
      word();
      tick();
    });
    const word = () => { pause.textContent = session.since ? "Pause" : "Go on"; };
    const go = button(last ? "Score it" : `Next: ${stages[session.stage + 1].id}`, () => {
      settle(!last && Boolean(session.since));
      session.stage += 1;
      save();
      say("");
      (last ? score() : stage()).focus();
    });
    const leave = button("Give up", () => {
      if (!confirm("Give this interview up? Nothing of it is kept.")) return;
      clearInterval(ticking);
      session = null;
      save();
      setUp().focus();
    });
    const notes = make("textarea", { rows: 4, value: session.notes[id] ?? "" });
    notes.addEventListener("input", () => {
      session.notes[id] = notes.value;
      save();
    });

    const drilled = ["clarify", "build"].includes(id);
    const title = show(
      now.question,
      steps,
      timers,
      note(STAGES[id].say),
      ...(drill && drilled ? [make(
        "section",
        { className: "practice-card", ariaLabel: "The task" },
        make("h3", {}, drill.title),
        drill.ask(),
        make("p", {}, make("a", { href: drill.page }, "Its page")),
      )] : []),
      ...items(id).map(asked),
      make("label", { className: "mock-notes" }, "Notes for the summary", notes),
      bar(pause, go, leave),
    );
    word();
    tick();
    ticking = setInterval(tick, 1000);
    return title;
  };

  // ---- after
  const score = () => {
    clearInterval(ticking);
    const form = make("form", { className: "mock-score", noValidate: true });
    for (const line of lines) {
      form.append(make(
        "fieldset",
        {},
        make("legend", {}, line.name, make("small", {}, ` ${line.stage}, from ${line.from}`)),
        ...line.marks.map((text, mark) => make(
          "label",
          {},
          make("input", { type: "radio", name: line.id, value: mark, checked: session.marks[line.id] === mark }),
          make("span", {}, make("b", {}, `${mark} `), text),
        )),
      ));
    }
    form.append(bar(make("button", { className: "md-button practice-wide" }, "Summary")));
    form.addEventListener("change", ({ target }) => {
      session.marks[target.name] = Number(target.value);
      save();
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const missing = lines.filter(({ id }) => session.marks[id] === undefined);
      if (missing.length) {
        say(`Without a mark: ${missing.map(({ name }) => name).join(", ")}.`);
        form.elements[missing[0].id][0].focus();
        return;
      }
      summary().focus();
    });
    return show("Score yourself: ten lines", form);
  };

  const summary = () => {
    const titles = Object.fromEntries(stages.map(({ id }) =>
      [id, [...(drill && id === "build" ? [drill] : []), ...items(id)]]));
    const text = markdown(session, all, titles);
    const { day, level, minutes, marks } = session;
    const weak = weakest(all, marks, level);
    session = null;
    save({ history: [{ day, level, minutes, marks, markdown: text }, ...place.read().history] });
    say("Kept in this browser.");
    return show(
      "What to practice next",
      note(`The weakest lines: ${weak.map(({ name }) => name).join(" and ")}.`),
      links(weak),
      make("pre", { className: "mock-summary", tabIndex: 0, role: "region", ariaLabel: "Summary" }, text),
      bar(
        button("Save as Markdown", () => download(`mock-interview-${day}.md`, "text/markdown", text)),
        button("Another interview", () => setUp().focus()),
      ),
    );
  };

  root.replaceChildren(view, said);
  session = place.read().session;
  if (!session) {
    setUp();
    return;
  }
  // A reload goes on. Who was away for longer than the whole had left.
  const away = Date.now() - Math.max(session.seen, session.since ?? 0);
  if (session.since && away > session.minutes * MINUTE) {
    settle(false, Math.max(session.seen, session.since));
    save();
    say("You were away for longer than the interview lasts: the clock stands where you left it.");
  }
  await open();
};
