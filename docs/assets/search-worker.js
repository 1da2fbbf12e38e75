/* Answers the theme's search box, in a worker that the theme starts. The index
   comes in chunks (code/lockstep/site/build/search.py): a query fetches those that
   hold its words, and the texts of the pages that it shows. */
const [SETUP, READY, QUERY, RESULT] = [0, 1, 2, 3];
const PAGES = 10, SECTIONS = 4, RAREST = 8, BEGINNINGS = 40, AROUND = 24, PATIENCE = 100;
const base = new URL("../../../search/", location);
const files = new Map();
let table, owner, latest;

const load = (name) => {
  if (!files.has(name)) {
    const file = fetch(new URL(`${table.folder}/${name}.json`, base)).then((r) => r.json());
    file.catch(() => files.delete(name)); // the network may be back at the next key
    files.set(name, file);
  }
  return files.get(name);
};

/* The rules of `stem` and `words` in search.py. */
const stem = (word) => {
  if (word.length < 4 || !/^[a-z]+$/.test(word)) return word;
  if (word.endsWith("ies")) word = `${word.slice(0, -3)}y`;
  else if (/s$/.test(word) && !/(ss|us|is)$/.test(word)) word = word.slice(0, -1);
  const ending = /...(ing|ed)$/.exec(word);
  if (ending) {
    word = word.slice(0, -ending[1].length);
    if (/([^lsz])\1$/.test(word)) word = word.slice(0, -1);
  }
  return word.length > 3 && word.endsWith("e") ? word.slice(0, -1) : word;
};
const words = (text) => [...text.toLowerCase().matchAll(/[a-z0-9_]+(?:-[a-z0-9_]+)*/g)]
  .flatMap(([whole]) => {
    const parts = whole.split(/[-_]+/).filter(Boolean);
    return (parts.length > 1 ? [whole.replaceAll("-", "")] : []).concat(parts.map(stem));
  });

/* The words of the index that a word stands for, each with its rarity and places. What
   is still being typed stands for every word that begins with it. */
const entries = async (word, typing) => {
  let [low, high] = [0, table.chunks.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (table.chunks[middle] <= word) low = middle; else high = middle;
  }
  const chunk = await load(`words-${low}`);
  if (Object.hasOwn(chunk, word)) return [[word, chunk[word]]];
  if (!typing) return [];
  const next = table.chunks[high]?.startsWith(word) ? await load(`words-${high}`) : {};
  return Object.entries({ ...chunk, ...next })
    .filter(([each]) => each.startsWith(word)).slice(0, BEGINNINGS);
};

/* What a word weighs in each section where it is, and how rare it is. */
const find = async (word, typing) => {
  const found = await entries(word, typing);
  if (!found.length) return null;
  const weights = new Map();
  let rarity = Infinity;
  for (const [, [rare, steps, values]] of found) {
    rarity = Math.min(rarity, rare);
    let section = 0;
    steps.forEach((step, i) => {
      section += step;
      weights.set(section, Math.max(values[i], weights.get(section) ?? 0));
    });
  }
  return { word, rarity, weights, found: found.map(([each]) => each) };
};

/* A pasted message has numbers that mean nothing, and a query has words that are
   everywhere. Of a long one the rarest words decide. */
const parse = async (query) => {
  let asked = [...new Set(words(query))];
  const last = /\w$/.test(query) ? asked.at(-1) : null;
  const telling = asked.filter((word) => !table.stop.has(word) && !/^\d{4,}$/.test(word));
  if (telling.length) asked = telling;
  const found = await Promise.all(asked.map((word) => find(word, word === last)));
  return found.filter(Boolean).sort((a, b) => b.rarity - a.rarity).slice(0, RAREST);
};

/* A page is as good as the best places in it for each word, and as its best section
   for all of them. */
const rank = (terms) => {
  const pages = new Map();
  for (const { rarity, weights } of terms) {
    const best = new Map();
    for (const [section, weight] of weights) {
      const page = owner[section];
      best.set(page, Math.max(weight, best.get(page) ?? 0));
      if (!pages.has(page)) pages.set(page, { page, spread: 0, sections: new Map() });
      const { sections } = pages.get(page);
      sections.set(section, (sections.get(section) ?? 0) + rarity * weight);
    }
    for (const [page, weight] of best) pages.get(page).spread += rarity * weight;
  }
  for (const each of pages.values()) {
    const closest = Math.max(...each.sections.values());
    each.score = (each.spread + closest) * table.pages[each.page][2];
  }
  return [...pages.values()].sort((a, b) => b.score - a.score);
};

const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const marked = (text, sought) => escape(text).replace(/&#\d+;|\w+/g, (word) => (
  words(word).some((each) => sought.has(each)) ? `<mark>${word}</mark>` : word));

/* The words around the place in a text that has most of what is sought. */
const excerpt = (text, sought) => {
  const all = text.split(" ");
  const hits = all.map((word) => +words(word).some((each) => sought.has(each)));
  let [at, most, inside] = [0, -1, 0];
  hits.forEach((hit, i) => {
    inside += hit - (hits[i - AROUND] ?? 0);
    if (inside > most) [at, most] = [Math.max(0, i - AROUND + 1), inside];
  });
  const cut = all.slice(at, at + 2 * AROUND).join(" ");
  const [before, after] = [at ? "… " : "", at + 2 * AROUND < all.length ? " …" : ""];
  return `<p>${before}${marked(cut, sought)}${after}</p>`;
};

/* What the theme shows of a page: its best sections, and itself. */
const item = async ({ page, score, sections, matched }, sought) => {
  const [url, , , start] = table.pages[page];
  const texts = await load(`text-${page}`);
  const best = [...sections].filter(([section]) => section - start < texts.length)
    .sort((a, b) => b[1] - a[1]).slice(0, SECTIONS);
  if (!best.some(([section]) => section === start)) best.push([start, 0]);
  return best.map(([section, own], i) => {
    const [anchor, title, text] = texts[section - start];
    return {
      location: anchor ? `${url}#${anchor}` : url,
      title: marked(title, sought),
      text: excerpt(text, sought),
      score: i ? (score * own) / best[0][1] / 2 : score,
      terms: matched,
    };
  });
};

/* Answers with titles alone where the texts take long to come, and then with both. */
const answer = async (query) => {
  const send = (items, suggest = []) => {
    if (query === latest) postMessage({ type: RESULT, data: { query, items, suggest } });
  };
  latest = query;
  const terms = await parse(query);
  const sought = new Set(terms.flatMap(({ found }) => found));
  const ranked = rank(terms).slice(0, PAGES);
  for (const each of ranked) {
    each.matched = Object.fromEntries(terms
      .filter(({ weights }) => [...weights.keys()].some((at) => owner[at] === each.page))
      .map(({ word }) => [word, true]));
  }
  const typed = /\w+$/.exec(query.toLowerCase())?.[0];
  const suggest = ranked.flatMap(({ page }) => table.pages[page][1].toLowerCase().match(/\w+/g))
    .filter((word) => typed && word.startsWith(typed)).slice(0, 1);
  const whole = Promise.all(ranked.map((each) => item(each, sought)));
  const soon = await Promise.race([whole, new Promise((wait) => setTimeout(wait, PATIENCE))]);
  if (!soon) {
    send(ranked.map(({ page, score, matched: terms }) => {
      const [location, title] = table.pages[page];
      return [{ location, title: marked(title, sought), text: "", score, terms }];
    }), suggest);
  }
  send(await whole, suggest);
};

addEventListener("message", async ({ data: { type, data } }) => {
  if (type === SETUP) {
    table = data.config;
    table.stop = new Set(table.stop);
    let sections = 0;
    owner = table.pages.flatMap((page, i) => {
      const own = page[3];
      page[3] = sections;
      sections += own;
      return Array(own).fill(i);
    });
    postMessage({ type: READY });
  } else if (type === QUERY) {
    await answer(data).catch(() => {
      if (data === latest) postMessage({ type: RESULT, data: { query: data, items: [] } });
    });
  }
});
