// The page's own script: keeps its parts up to date, its times right, its dialogs and keys working.
"use strict";

(() => {
  const EVENTS = "/events";
  const CHANNEL = "parley-events";
  const QUIET_MS = 300; // at least between two fetches of one part
  const FAILED_MS = 3000; // before a part is asked for again that could not be had
  const body = document.body;

  // ---- what is new ---------------------------------------------------------------------------
  // Browsers allow six connections to one host: so one tab holds the stream, and tells the others.

  const channel = "BroadcastChannel" in window ? new BroadcastChannel(CHANNEL) : null;
  const ready = new WeakMap(); // part -> when it may be asked for again
  let stale = false; // whether something changed while this tab was hidden

  function wanted(part, change) {
    const [repository, job, what] = change;
    const [kind, r, j] = part.dataset.live.split(":");
    if (what === "place" && (kind === "jobs" || r === repository)) return true; // it can't be read any more, or again
    if (kind === "place") return false;
    if (kind === "jobs") return what !== "work" || part.dataset.on === "work";
    if (r !== repository || (job && j !== job)) return false;
    return !part.dataset.on || part.dataset.on.split(" ").includes(what);
  }

  // All parts that are due are asked for at once, each with the version that is shown; those that changed come back.

  const due = new Set();
  const tags = new Map(); // address -> the version that is shown
  let planned = 0;
  let asking = false;

  function refresh(part) {
    due.add(part);
    plan();
  }

  // A part that could not be had is still due: no other change need come that would ask for it. It holds up no other part.
  function later(part) {
    ready.set(part, Date.now() + FAILED_MS);
    refresh(part);
  }

  function readyIn(part) {
    return Math.max(0, (ready.get(part) || 0) - Date.now());
  }

  function plan() {
    clearTimeout(planned);
    if (asking || !due.size) return;
    planned = setTimeout(ask, Math.min(...[...due].map(readyIn)));
  }

  function rest(part) {
    ready.set(part, Date.now() + Number(part.dataset.every || QUIET_MS));
  }

  async function ask() {
    const asked = [...due].filter((part) => !part.isConnected || readyIn(part) < 20);
    asked.forEach((part) => due.delete(part));
    const shown = asked.filter((part) => part.isConnected && part.hasAttribute("hx-get"));
    for (const part of asked) {
      if (part.isConnected && !part.hasAttribute("hx-get")) {
        rest(part);
        htmx.trigger(part, "refresh"); // it knows by itself what to fetch
      }
    }
    if (shown.length) {
      asking = true;
      await bring(shown);
      asking = false;
    }
    plan();
  }

  async function bring(shown) {
    const query = new URLSearchParams();
    for (const part of shown) {
      rest(part);
      query.append("part", part.getAttribute("hx-get"));
      query.append("tag", tags.get(part.getAttribute("hx-get")) || "");
    }
    try {
      const answer = await fetch(`/parts?${query}`);
      if (answer.status >= 500) throw new Error("the server could not answer");
      if (!answer.ok) return;
      for (const [address, tag, text] of await answer.json()) {
        if (tag) tags.set(address, tag);
        for (const part of shown) {
          if (!part.isConnected || part.getAttribute("hx-get") !== address) continue;
          if (tag) await put(part, text);
          else later(part); // it can't be made now
        }
      }
    } catch {
      shown.forEach(later); // the connection is gone, or the server in trouble
    }
  }

  function put(part, text) {
    return htmx.swap({ text, target: part, swap: part.getAttribute("hx-swap"), sourceElement: part });
  }

  // A part that htmx fetches when it is shown first: where that fails, what is shown stays, and it is due like any other.
  document.addEventListener("htmx:before:response", (event) => {
    if (!event.target.matches("[data-live]") || event.detail.ctx.response.status < 500) return;
    event.preventDefault();
    later(event.target);
  });

  // The tab's title and its icon say how much waits for the person, and follow it: a part that knows carries it.
  const icon = document.querySelector("link[rel=icon]");
  const plainIcon = icon.getAttribute("href");
  function entitle() {
    const waiting = Number(document.querySelector("[data-waiting]")?.dataset.waiting || 0);
    const title = `${waiting ? `(${waiting}) ` : ""}${document.title.replace(/^\(\d+\) /, "")}`;
    if (document.title !== title) document.title = title;
    const drawn = waiting ? `/icon/${Math.min(waiting, 10)}` : plainIcon;
    if (icon.getAttribute("href") !== drawn) icon.setAttribute("href", drawn);
  }
  document.addEventListener("htmx:after:swap", entitle);
  entitle();

  function show(changes) {
    if (document.hidden) {
      stale = true;
      return;
    }
    for (const part of document.querySelectorAll("[data-live]")) {
      if (changes === null || changes.some((change) => wanted(part, change))) refresh(part);
    }
  }

  // ---- the connection ------------------------------------------------------------------------

  const SILENT_MS = 12000; // after which a connection is taken for dead: the server gives a sign of life every five seconds
  const AGAIN_MS = 2000;
  const banner = document.getElementById("connection");
  let source = null; // the stream, where this tab holds one
  let leads = false; // whether it is this tab's task to hold it
  let away = false;
  let refused = false;
  let heard = Date.now();
  let mark = body.dataset.mark; // how far this tab has come
  let owed = null; // from where it has to ask for what it missed; nothing that it hears meanwhile moves that on
  let caught = 0; // when it asks again

  function say(there) {
    away = !there;
    body.classList.toggle("offline", away);
    if (banner) banner.hidden = there;
  }

  function connected(yes) {
    const back = yes && away;
    say(yes);
    if (back) catchUp();
  }

  function refuse() {
    refused = true;
    source?.close();
    say(false);
    if (banner) banner.textContent = "This browser is not let in any more: your link was taken back, or has expired. What you have typed is still here.";
  }

  function tell(message) {
    if (channel) channel.postMessage({ ...message, leads });
    hear(message);
  }

  function hear(message) {
    if (refused) return;
    heard = Date.now();
    if (message.mark) mark = message.mark;
    if (message.kind === "changes") show(message.changes);
    else if (message.kind === "reset") show(null);
    else if (message.kind === "connected") connected(message.yes);
    else if (message.kind === "refused") refuse();
    else if (away) connected(true);
  }

  function hearOther(message) {
    if (message.leads && !leads && source) {
      source.close(); // the tab whose task it is has come back
      source = null;
    }
    hear(message);
  }

  function listen() {
    if (refused) return;
    source?.close();
    const opened = new EventSource(`${EVENTS}?since=${encodeURIComponent(owed ?? mark)}`);
    source = opened;
    opened.addEventListener("hello", () => tell({ kind: "connected", yes: true }));
    opened.addEventListener("beat", () => tell({ kind: "beat" }));
    opened.addEventListener("change", (event) => {
      tell({ kind: "changes", changes: JSON.parse(event.data), mark: event.lastEventId });
    });
    opened.addEventListener("reset", (event) => tell({ kind: "reset", mark: event.lastEventId }));
    opened.onerror = () => {
      tell({ kind: "connected", yes: false });
      if (opened.readyState === EventSource.CLOSED && opened === source) {
        setTimeout(async () => (await catchUp(), opened === source && listen()), AGAIN_MS);
      }
    };
  }

  async function catchUp() {
    // what happened between the making of this page and its listening, or while there was no connection
    const from = (owed ??= mark);
    try {
      const answer = await fetch(`${EVENTS}/since?mark=${encodeURIComponent(from)}`);
      if (answer.status === 401) return tell({ kind: "refused" });
      if (!answer.ok) throw new Error("the server could not answer");
      const missed = await answer.json();
      owed = null;
      mark = missed.mark;
      say(true);
      if (missed.reset) show(null);
      else if (missed.changes.length) show(missed.changes);
    } catch {
      say(false);
      clearTimeout(caught);
      caught = setTimeout(catchUp, AGAIN_MS);
    }
  }

  function watch() {
    // A server that hangs, a network that swallows everything, a leading tab that the browser has put to sleep.
    if (refused || document.hidden || Date.now() - heard < SILENT_MS) return;
    heard = Date.now();
    say(false);
    listen();
  }

  if (mark) {
    if (channel) channel.onmessage = (event) => hearOther(event.data);
    if (channel && navigator.locks) navigator.locks.request(CHANNEL, () => ((leads = true), listen(), new Promise(() => {})));
    else listen();
    catchUp();
    setInterval(watch, AGAIN_MS);
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && stale) {
        stale = false;
        show(null);
      }
    });
    window.addEventListener("offline", () => say(false));
    window.addEventListener("online", catchUp);
    window.addEventListener("pagehide", () => source?.close());
    window.addEventListener("pageshow", (event) => event.persisted && location.reload());
  }

  // ---- times ---------------------------------------------------------------------------------

  function lasted(seconds) {
    const s = Math.max(0, Math.floor(seconds));
    const two = (n) => String(n).padStart(2, "0");
    if (s < 60) return `${s}s`;
    if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
    if (s < 86400) return `${Math.floor(s / 3600)}h ${two(Math.floor((s % 3600) / 60))}m`;
    return `${Math.floor(s / 86400)}d ${two(Math.floor((s % 86400) / 3600))}h`;
  }

  function tick() {
    for (const time of document.querySelectorAll("time[data-ago], time[data-for]")) {
      const words = lasted((Date.now() - Date.parse(time.dateTime)) / 1000) + ("ago" in time.dataset ? " ago" : "");
      if (time.textContent !== words) time.textContent = words;
    }
  }
  setInterval(() => document.hidden || tick(), 1000);

  // On a phone the tab that one is on may stand outside the strip.
  const strip = document.querySelector(".tabs");
  const here = strip?.querySelector("[aria-current]");
  if (here) strip.scrollLeft = here.offsetLeft - strip.offsetLeft - (strip.clientWidth - here.offsetWidth) / 2;

  // ---- copying, dialogs, notes ---------------------------------------------------------------

  function note(words, bad) {
    const place = document.getElementById("notes");
    if (!place || !words) return;
    const shown = document.createElement("p");
    shown.className = bad ? "note bad" : "note";
    shown.textContent = words;
    place.append(shown);
    setTimeout(() => shown.remove(), bad ? 15000 : 7000);
  }
  // What other scripts of the page use; each adds the keys that it listens for, as [key, what it does, whether it does now].
  const SINGLE = "parley:single-keys";
  const moreKeys = [];
  function singleKeys() {
    try {
      return localStorage.getItem(SINGLE) !== "off";
    } catch {
      return true; // this browser keeps nothing
    }
  }
  function typing(target) {
    return target.closest("input:not([type=radio], [type=checkbox], [type=file]), textarea, select, [contenteditable]");
  }
  window.parley = { note, later, moreKeys, singleKeys, typing };

  document.addEventListener("click", async (event) => {
    const target = event.target.closest("[data-copy], [data-dialog], [data-close], [data-go]");
    if (!target) return;
    if (target.dataset.copy !== undefined) {
      event.preventDefault();
      await navigator.clipboard.writeText(target.dataset.copy).then(
        () => note(`copied ${target.dataset.copy}`),
        () => note("the browser does not let this page copy", true),
      );
    } else if (target.dataset.dialog) {
      event.preventDefault();
      document.getElementById(target.dataset.dialog)?.showModal();
    } else if (target.dataset.close !== undefined) {
      event.preventDefault();
      target.closest("dialog")?.close();
    }
  });

  // What a form answers with `HX-Trigger: {"note": …}`.
  body.addEventListener("note", (event) => {
    const detail = event.detail.value ?? event.detail;
    note(detail.words ?? detail, detail.bad);
    if (!detail.bad) event.target.closest?.("dialog")?.close();
  });

  // What was typed into a field with data-keep stays in this tab over a reload, until the server has taken it.
  const KEEP = "parley:kept:";
  for (const field of document.querySelectorAll("[data-keep]")) {
    const name = KEEP + field.dataset.keep;
    try {
      field.value = field.value || sessionStorage.getItem(name) || "";
      field.addEventListener("input", () => sessionStorage.setItem(name, field.value));
      field.form.addEventListener("htmx:after:request", (event) => event.detail.ctx.response?.raw.ok && sessionStorage.removeItem(name));
    } catch {
      break; // this browser keeps nothing
    }
  }

  // A form that the browser sends by itself is sent once: the page is about to go.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || form.hasAttribute("hx-post")) return;
    setTimeout(() => !event.defaultPrevented && form.querySelectorAll("button:not([type=button])").forEach((one) => (one.disabled = true)));
  });

  // A form that could not be sent says so beside its button; what was typed stays.
  document.addEventListener("htmx:error", (event) => {
    const asked = event.detail?.ctx;
    if (!asked) return;
    if (event.target.matches?.("[data-live]")) return later(event.target);
    const words = "There is no connection to the server, so this is not confirmed. Try again when it is back.";
    const place = event.target.closest?.("form")?.querySelector(".told");
    if (!place) return note(words, true);
    const said = document.createElement("p");
    said.className = "trouble";
    said.textContent = words;
    place.replaceChildren(said);
  });

  // ---- keys ----------------------------------------------------------------------------------
  // An element with data-key is clicked, or focused, by that key; `?` lists them all.

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape" && typing(event.target)) {
      event.target.blur();
      return;
    }
    if (typing(event.target) || !singleKeys()) return;
    const open = document.querySelector("dialog[open]");
    const scope = open || document;
    if (event.key === "?" && !open) {
      event.preventDefault();
      keys();
      return;
    }
    const found = [...scope.querySelectorAll("[data-key]")].find((one) => one.dataset.key === event.key && one.offsetParent);
    if (!found) return;
    event.preventDefault();
    if (found.matches("input:not([type=radio]):not([type=checkbox]), textarea, select, section, main")) found.focus();
    else {
      found.focus();
      found.click();
      found.dispatchEvent(new CustomEvent("parley:key", { bubbles: true }));
    }
  });

  function keys() {
    const dialog = document.getElementById("keys");
    const list = dialog.querySelector("dl");
    list.replaceChildren();
    const add = (key, what) => {
      const term = document.createElement("dt");
      const said = document.createElement("dd");
      term.textContent = key;
      said.textContent = what;
      list.append(term, said);
    };
    for (const one of document.querySelectorAll("[data-key]")) {
      if (one.offsetParent) add(one.dataset.key, one.dataset.does || one.getAttribute("aria-label") || one.textContent.trim());
    }
    for (const [key, what, now] of moreKeys) if (now()) add(key, what);
    add("?", "this list");
    dialog.showModal();
  }
  document.getElementById("show-keys").addEventListener("click", keys);

  // Letters that act by themselves disturb who dictates: they can be turned off.
  const single = document.getElementById("single-keys");
  single.checked = singleKeys();
  single.addEventListener("change", () => {
    try {
      localStorage.setItem(SINGLE, single.checked ? "on" : "off");
    } catch {
      note("This browser keeps nothing: the keys stay as they are.", true);
    }
  });
})();
