// Comments on lines of a text or a diff, and drafts of answers: kept in this browser until they are sent.
"use strict";

(() => {
  const PREFIX = "parley:draft:";
  const LONGEST_QUOTE = 200;
  const root = document.querySelector("[data-draft]");
  if (!root) return;
  const key = PREFIX + root.dataset.draft;
  let current = null; // the line that keys act on

  // ---- what is kept --------------------------------------------------------------------------

  function read() {
    try {
      const found = JSON.parse(localStorage.getItem(key) || "{}");
      return { words: "", choice: "", ...found, comments: Array.isArray(found.comments) ? found.comments : [] };
    } catch {
      return { words: "", choice: "", comments: [] };
    }
  }

  function write(change) {
    const draft = { ...read(), ...change };
    const empty = !draft.words && !draft.choice && !draft.comments.length;
    try {
      if (empty) localStorage.removeItem(key);
      else localStorage.setItem(key, JSON.stringify(draft));
    } catch {
      parley.note("This browser keeps nothing: send before you leave the page.", true);
    }
    document.dispatchEvent(new CustomEvent("parley:draft"));
  }

  function text(comment) {
    const where = `${comment.path}:${comment.line}${comment.removed ? " (removed)" : ""}`;
    return `${where}: "${comment.quote}" — ${comment.text}`;
  }

  const composed = () => read().comments.map(text).join("\n\n");
  window.parleyDraft = { read, write, composed, forget: () => write({ words: "", choice: "", comments: [] }) };

  // ---- beside the lines ----------------------------------------------------------------------

  function pathOf(row) {
    return row.closest("[data-path]")?.dataset.path || "";
  }

  function same(comment, row) {
    return (
      comment.path === pathOf(row) && String(comment.line) === row.dataset.line && !!comment.removed === ("removed" in row.dataset)
    );
  }

  function below(row, element) {
    // Put something below a line: in a table that is a row of its own.
    let after = row;
    while (after.nextElementSibling?.classList.contains("beside")) after = after.nextElementSibling;
    let shown = element;
    if (row.tagName === "TR") {
      shown = document.createElement("tr");
      const cell = document.createElement("td");
      cell.colSpan = row.children.length;
      cell.append(element);
      shown.append(cell);
    }
    shown.classList.add("beside");
    after.after(shown);
    level(row, shown);
    return shown;
  }

  function level(row, shown) {
    // Where two sides stand next to each other, leave as much room on the other one.
    const side = row.closest(".d2h-file-side-diff");
    const other = side && [...side.parentElement.children].find((one) => one !== side && one.matches(".d2h-file-side-diff"));
    const facing = other?.querySelectorAll("tr")[[...side.querySelectorAll("tr")].indexOf(shown) - 1];
    if (!facing) return;
    const room = document.createElement("tr");
    const cell = document.createElement("td");
    cell.colSpan = facing.children.length || 2;
    room.className = "beside room";
    room.append(cell);
    facing.after(room);
    new ResizeObserver((_, observer) => {
      if (shown.isConnected) cell.style.height = `${shown.offsetHeight}px`;
      else {
        room.remove();
        observer.disconnect();
      }
    }).observe(shown);
    shown.room = room;
  }

  function drop(shown) {
    shown.room?.remove();
    shown.remove();
  }

  function mark(scope) {
    // Show the comments that there are beside their lines.
    for (const old of scope.querySelectorAll(".beside.kept")) drop(old);
    for (const row of scope.querySelectorAll(".line.has-comment")) row.classList.remove("has-comment");
    const comments = read().comments;
    if (!comments.length) return;
    for (const row of scope.querySelectorAll(".line[data-line]")) {
      for (const comment of comments.filter((one) => same(one, row))) {
        row.classList.add("has-comment");
        const shown = document.createElement("p");
        shown.className = "comment";
        shown.textContent = comment.text;
        below(row, shown).classList.add("kept");
      }
    }
  }

  function edit(row) {
    document.querySelector(".beside.writing textarea")?.focus();
    if (document.querySelector(".beside.writing")) return;
    const form = document.createElement("div");
    const label = document.createElement("label");
    const field = document.createElement("textarea");
    const buttons = document.createElement("div");
    const save = document.createElement("button");
    const leave = document.createElement("button");
    form.className = "comment-form";
    label.textContent = `Comment on ${pathOf(row)}:${row.dataset.line}`;
    field.rows = 2;
    field.maxLength = 5000;
    label.append(field);
    buttons.className = "row";
    save.type = leave.type = "button";
    save.className = "primary";
    save.textContent = "Keep the comment";
    leave.textContent = "Cancel";
    buttons.append(save, leave);
    form.append(label, buttons);
    const shown = below(row, form);
    shown.classList.add("writing");

    const end = () => {
      drop(shown);
      row.focus({ preventScroll: true });
    };
    const keep = () => {
      const said = field.value.trim();
      if (said) {
        const quote = (row.querySelector(".said, .d2h-code-line-ctn")?.textContent || "").trim().slice(0, LONGEST_QUOTE);
        const made = { path: pathOf(row), line: Number(row.dataset.line), quote, text: said };
        if ("removed" in row.dataset) made.removed = true;
        write({ comments: [...read().comments, made] });
      }
      end();
    };
    save.addEventListener("click", keep);
    leave.addEventListener("click", end);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        event.stopPropagation();
        keep();
      } else if (event.key === "Escape") {
        event.preventDefault();
        event.stopPropagation();
        end();
      }
    });
    field.focus();
  }

  // ---- moving over lines ---------------------------------------------------------------------

  function choose(row) {
    current?.classList.remove("current");
    current = row;
    row.classList.add("current");
    row.tabIndex = -1;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  function step(by) {
    const rows = [...root.querySelectorAll(".line[data-line]")].filter((row) => row.offsetParent);
    if (!rows.length) {
      document.dispatchEvent(new CustomEvent("parley:lines-wanted"));
      const first = [...root.querySelectorAll(".line[data-line]")].find((row) => row.offsetParent);
      if (first) choose(first);
      return;
    }
    const at = current?.isConnected ? rows.indexOf(current) : -1;
    choose(rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))]);
  }

  document.addEventListener(
    "keydown",
    (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (parley.typing(event.target) || !parley.singleKeys()) return;
      if (event.key === "j" || event.key === "k") {
        event.preventDefault();
        step(event.key === "j" ? 1 : -1);
      } else if (event.key === "c" && current?.isConnected && current.contains(document.activeElement)) {
        event.preventDefault();
        edit(current);
      }
    },
    true,
  );

  const lines = () => root.querySelector(".line[data-line]");
  parley.moreKeys.push(["j k", "the next line, the one before", lines], ["c", "comment on the line", lines]);

  root.addEventListener("click", (event) => {
    const number = event.target.closest(".no, .d2h-code-linenumber, .d2h-code-side-linenumber");
    const row = number?.closest(".line[data-line]");
    if (!row) return;
    choose(row);
    edit(row);
  });

  // ---- the list of comments ------------------------------------------------------------------

  function list() {
    const comments = read().comments;
    const tray = document.getElementById("comment-tray");
    if (tray) tray.hidden = !comments.length;
    for (const place of document.querySelectorAll(".comment-tray .count")) {
      place.textContent = comments.length === 1 ? "1 comment" : `${comments.length} comments`;
    }
    for (const place of document.querySelectorAll(".comment-list")) {
      place.hidden = !comments.length;
      const preview = place.querySelector(".preview");
      if (preview) preview.textContent = composed();
      const items = place.querySelector("ol");
      if (items.contains(document.activeElement) && items.children.length === comments.length) continue; // being edited
      items.replaceChildren();
      comments.forEach((comment, number) => {
        const item = document.createElement("li");
        const where = document.createElement("label");
        const quote = document.createElement("code");
        const field = document.createElement("textarea");
        const remove = document.createElement("button");
        where.textContent = `${comment.path}:${comment.line}${comment.removed ? " (removed)" : ""} `;
        quote.textContent = comment.quote;
        field.value = comment.text;
        field.rows = 2;
        field.maxLength = 5000;
        field.addEventListener("input", () => {
          const all = read().comments;
          if (all[number]) {
            all[number].text = field.value;
            write({ comments: all });
          }
        });
        remove.type = "button";
        remove.textContent = "Remove";
        remove.setAttribute("aria-label", `Remove the comment on ${comment.path}:${comment.line}`);
        remove.addEventListener("click", () => {
          remove.blur();
          write({ comments: read().comments.filter((one, at) => at !== number) });
        });
        where.append(quote, field);
        item.append(where, remove);
        items.append(item);
      });
    }
  }

  function show() {
    list();
    mark(root);
  }

  document.addEventListener("parley:draft", show);
  document.addEventListener("parley:drawn", (event) => mark(event.target));
  window.addEventListener("storage", (event) => event.key === key && document.dispatchEvent(new CustomEvent("parley:draft")));
  show();
})();
