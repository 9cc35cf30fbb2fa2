// Dialogs that steer a job: a link with data-steer opens its page in a dialog instead of going there.
"use strict";

(() => {
  if (window.parleySteering) return; // the bar that loads this may be fetched again
  window.parleySteering = true;

  const dialog = document.createElement("dialog");
  dialog.id = "steering";
  dialog.setAttribute("aria-labelledby", "steering-title");
  document.body.append(dialog);

  // What was typed in a dialog is kept until it is sent: over a closed dialog, a reload, a lost connection.
  const unsent = (address) => `parley:unsent:${address}`;

  function keep(address, words) {
    try {
      if (words) sessionStorage.setItem(unsent(address), words);
      else sessionStorage.removeItem(unsent(address));
    } catch {
      /* this browser keeps nothing */
    }
  }

  function kept(address) {
    try {
      return sessionStorage.getItem(unsent(address)) || "";
    } catch {
      return "";
    }
  }

  let shown = "";

  async function open(address, link) {
    link?.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address, { headers: { "HX-Request": "true" } });
      dialog.innerHTML = await answer.text();
    } catch {
      parley.note("There is no connection; try again in a moment.", true);
      return;
    } finally {
      link?.removeAttribute("aria-busy");
    }
    htmx.process(dialog);
    shown = address;
    const words = dialog.querySelector("textarea");
    if (words) words.value = kept(address);
    if (!dialog.querySelector("[data-close]")) {
      const close = document.createElement("button");
      close.dataset.close = "";
      close.textContent = "Close";
      dialog.append(close);
    }
    if (!dialog.open) dialog.showModal();
    dialog.querySelector("[autofocus]")?.focus();
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-steer]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    if (!link.ariaBusy) open(link.getAttribute("href"), link);
  });

  dialog.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) dialog.querySelector("form")?.requestSubmit();
  });
  dialog.addEventListener("input", (event) => event.target.matches("textarea") && keep(shown, event.target.value));
  dialog.addEventListener("note", (event) => (event.detail.value ?? event.detail).bad || keep(shown, ""));
  dialog.addEventListener("close", () => dialog.replaceChildren());
})();
