// Filter of the rules: keeps the rows and sections that contain every word.
document.addEventListener("DOMContentLoaded", () => {
  const table = document.querySelector("article table");
  const holder = table.closest(".table-wrapper") ?? table;
  const label = document.createElement("label");
  const field = document.createElement("input");
  const count = document.createElement("output");
  label.className = "rules-filter";
  field.type = "search";
  field.placeholder = "code, name or words of the text";
  label.append("Filter ", field, " ", count);
  holder.before(label);

  const rules = [...table.tBodies[0].rows].map((row) => {
    const section = document.getElementById(row.querySelector("a").getAttribute("href").slice(1));
    return { row, section, text: `${row.textContent} ${section.textContent}`.toLowerCase() };
  });
  const groups = [...document.querySelectorAll("article section section:has(> section)")];

  function apply() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { row, section, text } of rules) {
      const hidden = !words.every((word) => text.includes(word));
      row.hidden = section.hidden = hidden;
      shown += !hidden;
    }
    for (const group of groups) group.hidden = !group.querySelector(":scope > section:not([hidden])");
    count.textContent = words.length ? `${shown} of ${rules.length} rules` : `${rules.length} rules`;
  }

  function reveal() {
    const target = document.getElementById(location.hash.slice(1));
    if (target?.closest("[hidden]")) {
      field.value = "";
      apply();
      target.scrollIntoView();
    }
  }

  field.addEventListener("input", apply);
  window.addEventListener("hashchange", reveal);
  apply();
});
