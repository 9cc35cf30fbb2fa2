// The conversation: what is new is appended, what has changed is replaced, and the reader keeps their place.
"use strict";

(() => {
  const NEAR = 160; // pixels from the end at which a person follows it
  const MOST = 800; // items; a page that follows the end for hours begins anew
  const list = document.getElementById("talk");
  const down = document.getElementById("talk-down");
  if (!list) return;
  let busy = false;
  let again = false;

  const atEnd = () => window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - NEAR;
  const toEnd = () => window.scrollTo({ top: document.documentElement.scrollHeight });

  function place(item) {
    const old = document.getElementById(item.id);
    if (!old) {
      list.append(item);
      htmx.process(item);
      return true;
    }
    const open = old.querySelector("details.turn[open]");
    if (open) {
      // it is being read: only its head changes, and what it did is fetched again
      open.querySelector("summary").replaceWith(item.querySelector("summary"));
      htmx.trigger(open, "again");
    } else if (old.matches(".turn-item") && old.querySelector("details.out")) {
      old.replaceWith(item);
      htmx.process(item);
    }
    return false;
  }

  async function fetchNew() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      const answer = await fetch(`${list.dataset.new}&after=${list.dataset.last}`, { headers: { "HX-Request": "true" } });
      if (answer.status >= 500) throw new Error("the server could not answer");
      if (!answer.ok) return;
      const holder = document.createElement("div");
      holder.innerHTML = await answer.text();
      const found = holder.querySelector("template");
      if (!found) return;
      if ("reload" in found.dataset) {
        location.reload();
        return;
      }
      const follows = atEnd();
      let added = 0;
      for (const item of [...found.content.children]) added += place(item) ? 1 : 0;
      list.dataset.last = found.dataset.last;
      if (added) document.getElementById("talk-empty")?.remove();
      if (follows && list.children.length > MOST) location.reload();
      else if (added && follows) toEnd();
      else if (added) down.hidden = false;
    } catch {
      parley.later(list); // the connection is gone, or the server in trouble
    } finally {
      busy = false;
      if (again) {
        again = false;
        fetchNew();
      }
    }
  }

  list.addEventListener("refresh", (event) => event.target === list && fetchNew());
  down.addEventListener("click", () => {
    down.hidden = true;
    toEnd();
  });
  window.addEventListener("scroll", () => atEnd() && (down.hidden = true), { passive: true });

  if (!location.hash && list.scrollHeight > window.innerHeight) toEnd();

  // Earlier messages come in above: what one reads stays where it is.
  let height = 0;
  document.addEventListener("htmx:before:swap", () => (height = document.documentElement.scrollHeight));
  document.addEventListener("htmx:after:swap", (event) => {
    const target = event.detail?.ctx?.target ?? event.target;
    if (target?.id?.startsWith("earlier-")) window.scrollBy(0, document.documentElement.scrollHeight - height);
  });
})();
