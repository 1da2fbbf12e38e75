/* The box that explains a pasted log. The project's own Python reads it, in a
   worker of the reader's browser; nothing is sent. The messages are loaded when
   somebody asks for the first time. */
(() => {
  const here = document.currentScript.src;
  const site = new URL("..", here).href;
  let messages;
  const load = async () => {
    const answer = await fetch(new URL("messages.json", here));
    if (!answer.ok) throw new Error("the messages did not load; try again");
    return answer.text();
  };

  const start = (form) => {
    const log = form.querySelector("textarea");
    const place = form.querySelector(".explain-answer");
    const refuse = (why) => {
      const line = document.createElement("p");
      line.className = "explain-refused";
      line.setAttribute("role", "alert");
      line.textContent = why;
      place.replaceChildren(line);
    };
    const explain = async () => {
      form.ariaBusy = "true";
      try {
        messages ??= load().catch((error) => {
          messages = undefined;
          throw error;
        });
        const given = [await messages, log.value, site];
        const said = await askPython("lockstep.explain.page", ...given);
        if (said.failed) refuse(said.failed);
        else place.innerHTML = said.html;
      } catch ({ message }) {
        refuse(message);
      } finally {
        form.ariaBusy = "false";
      }
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      explain();
    });
    log.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        explain();
      }
    });
  };

  document$.subscribe(() => {
    for (const form of document.querySelectorAll("form.explain")) start(form);
  });
})();
