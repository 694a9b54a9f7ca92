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
})();
