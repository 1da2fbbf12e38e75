/* What the tools share: what can be asked, and where progress is kept. */

export const site = new URL("../../", import.meta.url);

/** An element with its properties and what is inside. */
export const make = (tag, given = {}, ...inside) => {
  const element = Object.assign(document.createElement(tag), given);
  element.append(...inside);
  return element;
};

export const button = (text, act, given = {}) => {
  const made = make("button", { className: "md-button", type: "button", ...given }, text);
  made.addEventListener("click", act);
  return made;
};

/** A labeled choice; `options` are pairs of value and text. */
export const choice = (text, name, options, value) => {
  const select = make("select", { name });
  for (const [id, shown] of options) select.append(new Option(shown, id, false, id === value));
  return make("label", {}, text, select);
};

/** The site's own HTML: its links lead on from where they stood. */
const fragment = (html, base) => {
  const { content } = make("template", { innerHTML: html });
  for (const link of content.querySelectorAll("a[href]")) {
    link.href = new URL(link.getAttribute("href"), base).href;
  }
  for (const named of content.querySelectorAll("[id]")) named.removeAttribute("id");
  // What the theme does for a page when it comes: wide things scroll, by key too.
  for (const code of content.querySelectorAll("pre code")) code.tabIndex = 0;
  for (const table of content.querySelectorAll("table:not([class])")) {
    const inner = make("div", { className: "md-typeset__table" });
    table.replaceWith(make("div", { className: "md-typeset__scrollwrap" }, inner));
    inner.append(table);
  }
  return content;
};

const get = async (address) => {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${answer.status} for ${address}`);
  return answer;
};

const json = async (path) => (await get(new URL(path, site))).json();

/** All that can be asked, and how one is scored. */
export const published = () => json("assets/practice.json");

/** An element that is filled once what was promised has come. */
const awaited = (promise, inside) => {
  const place = make("div", { ariaBusy: "true" }, "…");
  const put = (...found) => {
    place.replaceChildren(...found);
    place.ariaBusy = "false";
  };
  promise.then((given) => put(...inside(given))).catch((error) => {
    put(make("p", { role: "alert" }, `This did not come: ${error.message}.`));
  });
  return place;
};

/** Each part of an answer, under its name. */
const titled = (parts, rank) => parts.flatMap(([name, inside]) => [make(rank, {}, name), inside]);

const title = (heading) => {
  for (const link of heading.querySelectorAll(".headerlink")) link.remove();
  return heading.textContent.trim();
};

/** What stands below a heading, up to the next of its rank or above. */
const below = (heading) => {
  const found = [];
  const rank = heading.tagName;
  let next = heading.nextElementSibling;
  for (; next && !(/^H\d$/.test(next.tagName) && next.tagName <= rank); next = next.nextElementSibling) {
    found.push(next);
  }
  return found;
};

const page = async (path) => {
  const address = new URL(path, site);
  const text = await (await get(address)).text();
  return [new DOMParser().parseFromString(text, "text/html"), address];
};

/** The task of a drill, as its page states it. */
export const task = async (path) => {
  const [read, address] = await page(path);
  const html = below(read.querySelector("#task")).map((part) => part.outerHTML).join("");
  return {
    id: `task:${path}`,
    title: title(read.querySelector("h1")),
    page: address.href,
    ask: () => fragment(html, address),
  };
};

/* The fast mock prompts are written once, as a page: a heading asks, and the
   note folded below it answers. */
const prompts = async (level) => {
  const [read, address] = await page("practice/mock-prompts/");
  return [...read.querySelectorAll("article h2[id]")].flatMap((group) =>
    below(group)
      .filter(({ tagName }) => tagName === "H3")
      .map((heading) => {
        const note = below(heading).find((part) => part.matches("details"));
        const move = note.querySelector("summary");
        const name = move.textContent;
        move.remove();
        return {
          id: `prompt:${heading.id}`,
          sort: "prompt",
          group: group.id,
          topic: "prompts",
          level,
          title: title(heading),
          page: `${address.href}#${heading.id}`,
          ask: () => "What do you look at first?",
          answer: (turn, rank) => titled([[name, fragment(note.innerHTML, address)]], rank),
        };
      }),
  );
};

/** A question of a kind, drawn by the planner's own files. */
const estimate = (kind, seed) =>
  askPython("lockstep.practice.estimates", kind, seed, "");

/* The kinds of estimate are those that their page offers; each turn draws new
   numbers, which come when the worker has them. */
const estimates = async (topics) => {
  const [read, address] = await page("practice/estimation/");
  const ids = Object.fromEntries(Object.entries(topics).map(([id, name]) => [name, id]));
  const drawn = new Map();
  const shown = (kind, turn, inside) => {
    const key = `${kind} ${turn}`;
    if (!drawn.has(key)) {
      const coming = estimate(kind, turn);
      drawn.set(key, coming);
      coming.catch(() => drawn.delete(key)); // so that it is asked again
    }
    return awaited(drawn.get(key), (said) => [inside(said)]);
  };
  const worked = (html) => {
    const part = fragment(html, address);
    for (const fold of part.querySelectorAll("details")) fold.open = true;
    return part;
  };
  return [...read.querySelectorAll("form.estimates option")]
    .filter(({ value }) => value)
    .map(({ value: kind, textContent: title, parentElement: { label } }) => ({
      id: `estimate:${kind}`,
      sort: "estimate",
      topic: ids[label],
      title,
      page: `${address.href}?kind=${kind}`,
      ask: (turn) => shown(kind, turn, ({ question }) => question),
      answer: (turn, rank) =>
        titled([["Derivation", shown(kind, turn, (said) => worked(said.worked))]], rank),
    }));
};

const flat = (pushbacks) =>
  pushbacks.flatMap(({ ask, reply, then }) => [[ask, reply], ...flat(then)]);

/* What is said in answer is in a file of each question's own, fetched when it is
   asked for. One that did not come is fetched again the next time. */
const told = new Map();
const tell = (id) => {
  if (!told.has(id)) {
    told.set(id, json(`assets/practice/${id}.json`));
    told.get(id).catch(() => told.delete(id));
  }
  return told.get(id);
};

const question = ({ id, question: asked, pushed, page: address, ...given }) => {
  const said = (inside) => awaited(tell(id), inside);
  const pushback = (place) => (of) =>
    said(({ pushbacks }) => [fragment(flat(pushbacks)[of][place], site)]);
  return {
    ...given,
    id,
    sort: "question",
    page: new URL(address, site).href,
    ask: () => fragment(asked, site),
    answer: (turn, rank) => [said(({ parts }) =>
      titled(parts.map(([name, html]) => [name, fragment(html, site)]), rank))],
    pushed, // how often one can push back
    push: pushback(0),
    meet: pushback(1),
  };
};

let loaded;

const load = async () => {
  const given = await published();
  // The level from which the rubric expects a first move.
  const { from } = given.lines.find(({ id }) => id === "move");
  const found = await Promise.all([prompts(from), estimates(given.topics)]);
  return {
    levels: given.levels,
    stages: given.stages,
    lines: given.lines,
    topics: { ...given.topics, prompts: "First moves" },
    renamed: given.renamed,
    items: [given.questions.map(question), ...found].flat(),
  };
};

/** All there is to ask, fetched once. */
export const bank = () => {
  loaded ??= load().catch((error) => {
    loaded = undefined;
    throw error;
  });
  return loaded;
};

/** The items in an order that a seed decides, and that new ones leave alone. */
export const shuffled = (items, seed) => {
  const hash = (text) => {
    let value = 0x811c9dc5; // FNV-1a
    for (const letter of text) value = Math.imul(value ^ letter.codePointAt(0), 0x01000193);
    value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
    return (value ^ (value >>> 13)) >>> 0;
  };
  const key = new Map(items.map((item) => [item, hash(`${seed} ${item.id}`)]));
  return [...items].sort((one, other) => key.get(one) - key.get(other));
};

/** A place in this browser. Where it keeps nothing, a visit still works. */
export const shelf = (name, empty) => {
  let last = empty;
  return {
    read() {
      try {
        last = JSON.parse(localStorage.getItem(name)) ?? last;
      } catch {
        /* not to be read: what this visit knows */
      }
      return structuredClone(last);
    },
    /** Whether it will still be there tomorrow. */
    write(value) {
      last = value;
      try {
        localStorage.setItem(name, JSON.stringify(value));
        return true;
      } catch {
        return false;
      }
    },
  };
};

/** Cards by the present ids of their questions; the later review counts. */
export const carried = (cards, renamed) => {
  const found = {};
  for (const [id, card] of Object.entries(cards)) {
    const now = renamed[id] ?? id;
    const when = (one) => Date.parse(one.last_review);
    if (!found[now] || when(card) > when(found[now])) found[now] = card;
  }
  return found;
};

export const download = (name, type, text) => {
  const link = make("a", { download: name });
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};

export const MINUTE = 60_000;

/** Milliseconds as minutes and seconds, without their sign. */
export const clock = (milliseconds) => {
  const seconds = Math.floor(Math.abs(milliseconds) / 1000);
  return `${Math.floor(seconds / 60)}:${`${seconds % 60}`.padStart(2, "0")}`;
};

export const today = () => {
  const now = new Date();
  const two = (number) => `${number}`.padStart(2, "0");
  return `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
};
