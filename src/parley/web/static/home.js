// The first page: what is searched for stands in the address, so that it can be bookmarked and sent.
"use strict";

(() => {
  const form = document.getElementById("filters");
  if (!form) return;

  function address() {
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value) query.set(name, value);
    const words = query.toString();
    return words ? `/?${words}` : "/";
  }

  for (const kind of ["input", "change"]) form.addEventListener(kind, () => history.replaceState(null, "", address()));
})();
