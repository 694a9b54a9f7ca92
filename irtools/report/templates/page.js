"use strict";

// What every page of irtools has: the switch between light and dark, and printing.

(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // A page opened from a file may have no storage.
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

  // On paper nothing can be opened.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const element of opened) element.open = true;
  });
  addEventListener("afterprint", () => {
    for (const element of opened) element.open = false;
  });

  // A link to a rule opens it.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1).split("=", 1)[0]));
    if (target instanceof HTMLDetailsElement) target.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
