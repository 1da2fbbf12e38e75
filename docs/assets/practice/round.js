/* A design round for two: a clock, for the interviewer with its stages, and a
   score sheet that can be handed over. Nothing is sent or kept. */
import { button, clock, download, make, MINUTE, today } from "./bank.js";

/** A row of the score sheet as a choice: nothing, or one of its levels. */
const line = (row, levels, number) => {
  const [name, ...marks] = [...row.cells].map((cell) => cell.textContent.trim());
  const options = [["not reached", ""], ...levels.map((level, at) => [level, marks[at]])];
  return make(
    "fieldset",
    {},
    make("legend", {}, name),
    ...options.map(([level, text]) => make(
      "label",
      {},
      make("input", { type: "radio", name: `line-${number}`, value: level }),
      make("span", {}, make("b", {}, level), ` ${text}`),
    )),
  );
};

/** The sheet as a form, which becomes a text to hand over. */
const scoring = (sheet, heading) => {
  const [head, ...rows] = sheet.querySelectorAll("tr");
  const levels = [...head.cells].slice(1).map((cell) => cell.textContent.trim());
  const notes = make("textarea", { rows: 4, name: "notes" });
  const form = make(
    "form",
    { className: "mock-score" },
    ...rows.map((row, number) => line(row, levels, number)),
    make("label", { className: "mock-notes" }, "What you heard, in the candidate's words", notes),
    make("button", { className: "md-button practice-wide" }, "Save the score sheet"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = new FormData(form);
    const marked = rows.map((row, number) =>
      `- ${row.cells[0].textContent.trim()}: ${given.get(`line-${number}`) ?? "not reached"}`);
    const text = [`# ${heading}, ${today()}`, ...marked, notes.value].join("\n\n");
    download(`design-round-${today()}.md`, "text/markdown", `${text}\n`);
  });
  sheet.replaceChildren(form);
};

export const start = async (root) => {
  const whole = Number(root.dataset.minutes) * MINUTE;
  const stages = JSON.parse(root.dataset.stages ?? "[]");
  const own = make("strong", {});
  const rest = make("span", {});
  const timer = make("p", { role: "timer", className: "mock-clock" }, own, rest);
  const said = make("p", { role: "status", className: "practice-said" });
  const list = make(
    "ol",
    { className: "mock-stages" },
    ...stages.map(([name, minutes]) => make("li", {}, `${name} ${minutes} min`)),
  );

  let spent = 0; // before the clock was last started
  let since = null;
  let ticking;
  let last = -1;
  const taken = () => spent + (since === null ? 0 : Date.now() - since);
  const tick = () => {
    if (!root.isConnected) return clearInterval(ticking);
    const now = taken();
    let ends = 0;
    let at = stages.findIndex(([, minutes]) => now < (ends += minutes * MINUTE));
    if (at < 0) at = stages.length - 1;
    const left = whole - now;
    rest.textContent = `${clock(left)} ${left < 0 ? "over" : "left"} of ${clock(whole)}`;
    if (stages.length) own.textContent = `${stages[at][0]}: ${left < 0 ? "over" : `${clock(ends - now)} left`}`;
    timer.classList.toggle("mock-over", left < 0);
    // A listener hears of a stage once, and of the end.
    if (at !== last && since !== null) {
      list.querySelector("[aria-current]")?.removeAttribute("aria-current");
      list.children[at]?.setAttribute("aria-current", "step");
      if (stages.length) said.textContent = `Now: ${stages[at][0]}.`;
      last = at;
    }
    if (left <= 0) said.textContent = "Time is over.";
  };
  const go = button("Start the clock", () => {
    spent = taken();
    since = since === null ? Date.now() : null;
    go.textContent = since === null ? "Go on" : "Pause";
    timer.classList.toggle("round-running", since !== null);
    clearInterval(ticking);
    if (since !== null) ticking = setInterval(tick, 1000);
    tick();
  });
  if (!stages.length) own.remove(); // the candidate sees the whole time alone
  root.replaceChildren(...(stages.length ? [list] : []), timer, go, said);
  tick();

  const sheet = document.querySelector(".score-sheet");
  if (sheet) scoring(sheet, document.querySelector("h1").firstChild.textContent.trim());
};
