// Answering: verdicts by keys, words that survive a reload, a question before what ends something.
"use strict";

(() => {
  const draft = window.parleyDraft;
  if (!draft) return;

  // ---- comments that are sent as words to who is at work -------------------------------------

  const telling = document.getElementById("tell-comments");
  if (telling) {
    const fill = () => (telling.elements.text.value = draft.composed());
    telling.addEventListener("submit", fill, true);
    document.addEventListener("parley:draft", fill);
    fill();
    document.body.addEventListener("note", (event) => {
      if (telling.contains(event.target) && !(event.detail.value ?? event.detail).bad) draft.forget();
    });
  }

  // ---- a closed question ----------------------------------------------------------------------

  const closed = document.querySelector(".closed[data-draft]");
  if (closed) {
    const kept = draft.read();
    const text = [kept.words, draft.composed()].filter(Boolean).join("\n\n");
    if (closed.dataset.mine) draft.forget();
    else if (text) {
      const unsent = closed.querySelector(".unsent");
      unsent.hidden = false;
      unsent.querySelector("pre").textContent = text;
      unsent.querySelector("[data-copy]").dataset.copy = text;
      unsent.querySelector(".forget").addEventListener("click", () => {
        draft.forget();
        unsent.hidden = true;
      });
    }
  }

  // ---- how the artifact is shown ---------------------------------------------------------------

  const views = [...document.querySelectorAll("[data-view]")];
  function view(name) {
    for (const button of views) button.setAttribute("aria-pressed", String(button.dataset.view === name));
    for (const part of document.querySelectorAll("[data-shows]")) part.hidden = part.dataset.shows !== name;
    document.dispatchEvent(new CustomEvent("parley:draft"));
  }
  for (const button of views) button.addEventListener("click", () => view(button.dataset.view));
  document.addEventListener("parley:lines-wanted", () => views.some((one) => one.dataset.view === "lines") && view("lines"));

  // ---- the form --------------------------------------------------------------------------------

  const form = document.getElementById("answer-form");
  if (!form) return;
  const words = form.elements.text;
  const send = form.querySelector(".send");
  const sure = document.getElementById("sure");

  const chosen = () => form.querySelector("[name=choice]:checked");

  function update() {
    const way = chosen();
    form.elements.comments.value = draft.composed();
    const closed = document.querySelector("#question-state[data-closed]");
    const lacks = way?.dataset.words && !words.value.trim() && !form.elements.comments.value;
    send.disabled = !way || !!closed || !!lacks;
    const label = way ? way.dataset.label : "";
    send.textContent = closed ? "It can’t be answered any more" : !way ? "Choose an answer" : lacks ? `${label}: say what` : `Send: ${label}`;
    send.classList.toggle("danger", !!way?.dataset.ends);
    send.classList.toggle("primary", !way?.dataset.ends);
  }

  function pick(way) {
    draft.write({ choice: way.value });
    update();
  }

  function goOn(way) {
    if (way.dataset.ends || !way.dataset.words) send.focus();
    else words.focus();
  }

  // On a phone the verdicts stay in reach while one reads: a choice leads to the form, which sends it.
  const bar = document.querySelector(".verdict-bar");
  new IntersectionObserver(([entry]) => (bar.hidden = entry.isIntersecting)).observe(form);
  for (const button of bar.querySelectorAll("[data-pick]")) {
    button.addEventListener("click", () => {
      const way = form.querySelector(`[name=choice][value="${button.dataset.pick}"]`);
      way.checked = true;
      form.scrollIntoView({ block: "start" });
      pick(way);
      goOn(way);
    });
  }

  form.addEventListener("change", (event) => event.target.name === "choice" && pick(event.target));
  // A choice by its key, or by a press, leads on to what comes next. Arrow keys go through the choices, and stay there.
  form.addEventListener("parley:key", (event) => event.target.name === "choice" && goOn(event.target));
  form.addEventListener("click", (event) => event.detail && event.target.closest(".way") && setTimeout(() => chosen() && goOn(chosen())));
  parley.moreKeys.push(["Ctrl Enter", "send the answer", () => true]);
  words.addEventListener("input", () => {
    draft.write({ words: words.value });
    update();
  });
  document.addEventListener("parley:draft", update);

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.defaultPrevented || sure.open) return;
    event.preventDefault();
    if (!send.disabled) form.requestSubmit(send);
    else (chosen() ? words : form.querySelector("[name=choice]")).focus();
  });

  // What ends something is asked again, with what it ends.
  form.addEventListener(
    "submit",
    (event) => {
      const way = chosen();
      update();
      if (!way?.dataset.ends || form.elements.sure.value === "yes") return;
      event.preventDefault();
      event.stopImmediatePropagation();
      sure.querySelector(".ends").textContent = `This would ${way.dataset.ends}.`;
      document.getElementById("sure-yes").textContent = `Yes: ${way.dataset.label}`;
      sure.showModal();
    },
    true,
  );
  document.getElementById("sure-yes").addEventListener("click", () => {
    form.elements.sure.value = "yes";
    sure.close();
    form.requestSubmit(send);
  });
  sure.addEventListener("close", () => setTimeout(() => (form.elements.sure.value = ""), 0));

  document.addEventListener("htmx:after:swap", update); // the question may have been closed meanwhile
  new MutationObserver(update).observe(document.querySelector(".question-head").parentElement, { childList: true });

  const before = draft.read();
  words.value = before.words;
  const again = [...form.querySelectorAll("[name=choice]")].find((one) => one.value === before.choice);
  if (again) again.checked = true;
  update();
})();
