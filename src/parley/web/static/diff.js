// Diffs: each file's is fetched when it comes into view, and drawn in slices, so that a huge one stays usable.
"use strict";

(() => {
  const LAYOUT = "parley:diff-layout";
  const SLICE = 1200; // lines that are drawn at once
  const LONGEST_LINE = 2000; // characters of a line that are drawn
  const UNIFIED = "line-by-line";
  const SIDES = "side-by-side";
  const narrow = matchMedia("(max-width: 50rem)");
  const kept = new WeakMap(); // place -> the lines of its diff
  const wordsEnd = /^\\ (?!No newline)/; // what was left out, in words

  function layout() {
    let chosen = SIDES;
    try {
      chosen = localStorage.getItem(LAYOUT) || SIDES;
    } catch {
      /* this browser keeps nothing */
    }
    return narrow.matches ? UNIFIED : chosen;
  }

  function layoutOf(place) {
    // one side of a file that is wholly new, or gone, would be empty
    return kept.get(place).oneSided ? UNIFIED : layout();
  }

  // ---- reading -------------------------------------------------------------------------------

  function slices(lines) {
    // Cut a diff into parts that stand alone: each has the file's head, and the numbers of its first lines.
    const start = lines.findIndex((line) => line.startsWith("@@"));
    if (start < 0) return { parts: [], last: "" };
    const head = lines.slice(0, start);
    const parts = [];
    let last = "";
    let part = [];
    let before = 0;
    let after = 0;
    for (const line of lines.slice(start)) {
      if (wordsEnd.test(line)) {
        last = line.slice(2);
        continue;
      }
      const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
      if (part.length >= SLICE) {
        parts.push([...head, ...part]);
        part = hunk ? [] : [`@@ -${before},1 +${after},1 @@`];
      }
      if (hunk) {
        before = Number(hunk[1]);
        after = Number(hunk[2]);
      } else {
        if (line[0] !== "+" && line[0] !== "\\") before += 1;
        if (line[0] !== "-" && line[0] !== "\\") after += 1;
      }
      part.push(line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)} … ${line.length} characters` : line);
    }
    if (part.length) parts.push([...head, ...part]);
    return { parts, last };
  }

  function words(place, text) {
    const said = document.createElement("p");
    said.className = "quiet";
    said.textContent = text;
    place.append(said);
  }

  // ---- drawing -------------------------------------------------------------------------------

  function draw(place) {
    const { parts, last, text } = kept.get(place);
    place.replaceChildren();
    place.dataset.drawn = layoutOf(place);
    if (!parts.length) {
      const binary = text.includes("\nBinary files ");
      words(place, binary ? "It is not text." : !text.trim() ? "Only white space has changed." : last || "Only its name or its mode has changed.");
      return;
    }
    let next = 0;
    const more = document.createElement("button");
    more.type = "button";
    more.className = "more-lines";
    const go = () => {
      const part = document.createElement("div");
      more.before(part);
      one(part, parts[next], place.dataset.drawn);
      next += 1;
      if (next < parts.length) more.textContent = `Show the next lines (${parts.length - next} more parts)`;
      else {
        more.remove();
        if (last) words(place, last);
      }
      part.dispatchEvent(new CustomEvent("parley:drawn", { bubbles: true }));
    };
    more.addEventListener("click", go);
    place.append(more);
    go();
  }

  function whole(line) {
    // The library takes these words out of every line; with another blank in them they stay in a file's own lines.
    return line.startsWith("\\") ? line : line.replaceAll("\\ No newline at end", "\\\u00a0No newline at end");
  }

  function one(place, lines, drawnAs) {
    const drawn = new Diff2HtmlUI(
      place,
      lines.map(whole).join("\n"),
      {
        outputFormat: drawnAs, drawFileList: false, matching: "lines", colorScheme: "auto", fileListToggle: false,
        fileContentToggle: false, stickyFileHeaders: false, synchronisedScroll: true, maxLineSizeInBlockForComparison: 400,
        matchingMaxComparisons: 500, highlight: lines.length < 3000, renderNothingWhenEmpty: true,
      },
      window.hljs,
    );
    drawn.draw();
    for (const row of place.querySelectorAll("tr")) number(row);
    reach(place);
  }

  function reach(place) {
    // What scrolls sideways at this width can be scrolled by keys.
    for (const pane of place.querySelectorAll(".d2h-file-side-diff, .d2h-file-diff")) {
      if (pane.scrollWidth <= pane.clientWidth) continue;
      const path = pane.closest("[data-path]")?.dataset.path || "the text";
      const side = !pane.matches(".d2h-file-side-diff") ? "" : pane.nextElementSibling ? " before" : " after";
      pane.tabIndex = 0;
      pane.setAttribute("role", "group");
      pane.setAttribute("aria-label", `lines of ${path}${side}`);
    }
  }

  function number(row) {
    // Say which line of which side a row is, for comments.
    const cell = row.querySelector(".d2h-code-linenumber, .d2h-code-side-linenumber");
    if (!cell || cell.classList.contains("d2h-info") || cell.classList.contains("d2h-emptyplaceholder")) return;
    const pair = cell.querySelector(".line-num2");
    const sides = row.closest(".d2h-file-side-diff");
    const left = sides && !sides.previousElementSibling;
    const removed = cell.classList.contains("d2h-del");
    if (left && !removed) return; // it stands on the right, too
    const at = pair ? (removed ? cell.querySelector(".line-num1") : pair).textContent : cell.textContent;
    if (!at.trim()) return;
    row.classList.add("line");
    row.dataset.line = at.trim();
    if (removed) row.dataset.removed = "";
    cell.title = "Comment on this line";
  }

  function keep(place, text) {
    const oneSided = /^(--- |\+\+\+ )\/dev\/null$/m.test(text.split("\n@@", 1)[0]);
    kept.set(place, { ...slices(text.replace(/\n$/, "").split("\n")), text, oneSided });
    draw(place);
  }

  // ---- when ----------------------------------------------------------------------------------

  const withoutSpaces = () => document.getElementById("without-spaces")?.checked;

  async function load(file) {
    const place = file.querySelector(".drawn-diff");
    if (kept.has(place) || file.dataset.loading) return;
    file.dataset.loading = "yes";
    const without = withoutSpaces();
    try {
      const answer = await fetch(`${file.dataset.src}${without ? "&w=1" : ""}`, { headers: { "HX-Request": "true" } });
      if (!answer.ok) throw new Error(answer.status);
      keep(place, await answer.text());
    } catch {
      place.replaceChildren();
      words(place, "The diff could not be loaded. Close and open it to try again.");
    }
    delete file.dataset.loading;
    if (without !== withoutSpaces()) loadAgain(file);
  }

  function loadAgain(file) {
    kept.delete(file.querySelector(".drawn-diff"));
    if (file.open) load(file);
  }

  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) if (entry.isIntersecting && entry.target.open) load(entry.target);
    },
    { rootMargin: "400px" },
  );

  function follow(scope) {
    for (const file of scope.querySelectorAll(".file-diff:not([data-followed])")) {
      file.dataset.followed = "";
      seen.observe(file);
      file.addEventListener("toggle", () => file.open && load(file));
    }
    for (const place of scope.querySelectorAll(".drawn-diff[data-raw]:not([data-followed])")) {
      place.dataset.followed = "";
      place.rawText = place.querySelector("pre").textContent;
      keepRaw(place);
    }
  }

  function keepRaw(place) {
    // Several files in one text: a part each.
    const files = place.rawText.split(/^(?=diff --git )/m).filter((part) => part.trim());
    place.replaceChildren();
    for (const file of files.slice(0, 100)) {
      const part = document.createElement("div");
      place.append(part);
      part.dataset.path = (/^\+\+\+ b\/(.*)$/m.exec(file) || /^diff --git a\/.* b\/(.*)$/m.exec(file) || ["", "a file"])[1];
      if (files.length > 1) {
        const name = document.createElement("h3");
        name.textContent = part.dataset.path;
        part.before(name);
      }
      keep(part, file);
    }
    if (files.length > 100) words(place, `${files.length - 100} more files are not shown here.`);
  }

  function show() {
    for (const button of document.querySelectorAll("[data-layout]")) {
      button.setAttribute("aria-pressed", String(button.dataset.layout === layout()));
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-layout]");
    if (!button) return;
    try {
      localStorage.setItem(LAYOUT, button.dataset.layout);
    } catch {
      /* this browser keeps nothing */
    }
    again();
  });

  document.getElementById("without-spaces")?.addEventListener("change", (event) => {
    const writing = document.querySelector(".beside.writing textarea");
    if (writing) {
      event.target.checked = !event.target.checked; // first the comment that is being written there
      writing.focus();
    } else document.querySelectorAll(".file-diff").forEach(loadAgain);
  });

  function again() {
    show();
    if (document.querySelector(".beside.writing")) return; // a comment is being written there
    for (const place of document.querySelectorAll("[data-drawn]")) {
      if (kept.has(place) && place.dataset.drawn !== layoutOf(place)) draw(place); // one that is not is being loaded anew
    }
  }

  narrow.addEventListener("change", again);
  window.addEventListener("resize", () => reach(document));
  document.addEventListener("htmx:after:swap", () => follow(document));
  show();
  follow(document);
})();
