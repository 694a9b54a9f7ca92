"use strict";

// Behaviour of all irtools pages: theme switch, printing, links to rules.

(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // Browsers may deny storage to a page opened from a file.
  const stored = (value) => {
    try {
      if (value !== undefined) localStorage.setItem("irtools-theme", value);
      return localStorage.getItem("irtools-theme");
    } catch {
      return null;
    }
  };

  const shown = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const earlier = stored();
  if (earlier === "light" || earlier === "dark") root.dataset.theme = earlier;
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = shown() === "dark" ? "light" : "dark";
    stored(root.dataset.theme);
  });

  // A reader cannot open anything on paper.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const element of opened) element.open = true;
  });
  addEventListener("afterprint", () => {
    for (const element of opened) element.open = false;
  });

  // A link to a rule opens its explanation.
  const reveal = () => {
    let name = location.hash.slice(1).split("=", 1)[0];
    try {
      name = decodeURIComponent(name);
    } catch {
      return; // an address that somebody mistyped
    }
    const target = document.getElementById(name);
    if (target instanceof HTMLDetailsElement) target.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();

  // -- tables: sort by a column, and filter long ones ---------------------------------------

  const UNITS = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, K: 1e3, M: 1e6, G: 1e9, T: 1e12, s: 1, ms: 1e-3, "%": 1 };
  const FILTERED = 8;

  /** Number of a cell such as `1,024`, `1.5 MiB` or `-0.2 %`; null for other texts. */
  const quantity = (cell) => {
    const data = cell.querySelector("data");
    const found = /^\s*(?:up to |about )?([-+\u2212]?[\d,]*\.?\d+)\s*([A-Za-z%]*)/.exec(data ? data.value : cell.textContent);
    if (!found || (found[2] && !(found[2] in UNITS))) return null;
    return Number(found[1].replaceAll(",", "").replace("\u2212", "-")) * (UNITS[found[2]] || 1);
  };

  const compared = (one, other) => {
    const [a, b] = [quantity(one), quantity(other)];
    if (a !== null && b !== null) return a - b;
    if (a !== null || b !== null) return a === null ? 1 : -1;
    return one.textContent.localeCompare(other.textContent, "en", { numeric: true });
  };

  const sorted = (table, column, head) => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    for (const body of table.tBodies) {  // a sum is in a body of its own, and stays below its terms
      const rows = [...body.rows].sort((one, other) => compared(one.cells[column], other.cells[column]));
      body.replaceChildren(...(down ? rows.reverse() : rows));
    }
  };

  const filtered = (table, words, told) => {
    let shown = 0;
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      if (!row.hidden) shown += 1;
    }
    told.textContent = words.length ? `${shown} of ${rows.length}` : "";
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
      if (!head.textContent.trim()) continue;
      const button = document.createElement("button");
      Object.assign(button, { type: "button", className: "sort", title: "Sort" });
      button.append(...head.childNodes);
      button.addEventListener("click", () => sorted(table, column, head));
      head.append(button);
    }
    if (table.rows.length - 1 < FILTERED) continue;
    const bar = document.createElement("p");
    const field = document.createElement("input");
    const told = document.createElement("span");
    bar.className = "filter";
    Object.assign(field, { type: "search", placeholder: "Filter rows", spellcheck: false });
    field.setAttribute("aria-label", `Filter rows of ${table.parentElement.getAttribute("aria-label") || "the table"}`);
    told.className = "note";
    told.setAttribute("role", "status");
    field.addEventListener("input", () => filtered(table, field.value.toLowerCase().split(/\s+/).filter(Boolean), told));
    bar.append(field, " ", told);
    table.parentElement.before(bar);
  }
})();
