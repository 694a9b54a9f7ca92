// The table of exports: filters, order, and what each export opens to.

(() => {
  const byId = (id) => document.getElementById(id);
  const tag = byId("rows");
  const PIECE = 60;
  const body = byId("table").tBodies[0];
  const head = byId("table").tHead.rows[0];
  const words = byId("words");
  const selects = new Map();
  let columns = [];
  let rows = [];
  let shown = [];
  let drawn = 0;
  let order = { column: -1, down: false };
  const open = new Set();

  // -- one export -------------------------------------------------------------------------

  function cell(row, number) {
    const { title, right, key } = columns[number];
    const text = row.cells[number];
    const empty = text === "" || text === "none" || text === "not measured";
    const classes = [right ? "right" : "", key === "findings" ? "grade" : "", empty ? "unknown" : "", text === "" ? "empty" : ""];
    const made = element("td", { class: classes.filter(Boolean).join(" "), "data-label": title });
    if (number) made.append(text);
    else made.append(element("button", { type: "button", class: "opener name", "aria-expanded": String(open.has(row.number)), "data-row": row.number }, text));
    return made;
  }

  function line(row) {
    const made = element("tr", { class: `row is-${row.worst}` }, ...columns.map((_, number) => cell(row, number)));
    return open.has(row.number) ? [made, more(row)] : [made];
  }

  function facts(pairs) {
    return element("dl", { class: "facts" }, ...pairs.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
  }

  function strategy([name, available, reason]) {
    return element("li", { class: available ? "yes" : "no" }, element("span", { class: "sign", "aria-hidden": "true" }),
      element("div", {}, element("strong", {}, name), " ", element("span", { class: "state" }, available ? "available" : "not available"),
        reason ? element("div", { class: "reason" }, reason) : null));
  }

  function finding([severity, code, place, message, hint, op]) {
    const rule = byId(`rule-${code}`);
    return element("li", { class: severity },
      element("div", { class: "line" }, element("span", { class: "severity" }, severity),
        rule ? element("a", { class: "code", href: `#rule-${code}` }, code) : element("span", { class: "code" }, code),
        element("span", { class: "place name" }, place)),
      element("p", { class: "message" }, ...prose(message)),
      hint ? element("p", { class: "hint" }, ...prose(hint)) : null,
      op ? element("p", { class: "pin name" }, op) : null);
  }

  function listed(title, kind, items, make) {
    return items.length ? [element("h3", {}, title), element(kind[0], { class: kind[1] }, ...items.map(make))] : [];
  }

  function more(row) {
    const { error, pairs, strategies, findings, left } = row.more;
    const parts = [
      error ? element("p", { class: "refused" }, error) : null,
      ...listed("Findings", ["ol", "findings"], findings, finding),
      left ? element("p", { class: "note" }, left) : null,
      ...listed("Decoding strategies", ["ul", "strategies"], strategies, strategy),
      ...(pairs.length ? [element("h3", {}, "Facts"), facts(pairs)] : []),
    ];
    return element("tr", { class: "more" }, element("td", { colspan: columns.length }, element("div", {}, ...parts.filter(Boolean))));
  }

  // -- the table --------------------------------------------------------------------------

  function draw(most) {
    const piece = shown.slice(drawn, drawn + most);
    drawn += piece.length;
    body.append(...piece.flatMap(line));
    byId("end").textContent = drawn < shown.length ? `${drawn} of ${shown.length} shown; scroll for more` : "";
  }

  function matches(row, asked) {
    return asked.every((word) => row.haystack.includes(word))
      && [...selects].every(([number, select]) => !select.value || row.choices[number].includes(select.value.slice(1)));
  }

  function compare(a, b) {
    const { column, down } = order;
    if (column < 0) return a.number - b.number;
    const [left, right] = [a.keys[column], b.keys[column]];
    if (left === right) return a.number - b.number;
    if (left === null || left === "") return 1;
    if (right === null || right === "") return -1;
    return (left < right ? -1 : 1) * (down ? -1 : 1);
  }

  function update() {
    const asked = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = rows.filter((row) => matches(row, asked)).sort(compare);
    for (const select of selects.values()) select.classList.toggle("chosen", Boolean(select.value));
    const all = shown.length === rows.length;
    byId("count").textContent = `${all ? "" : `${shown.length} of `}${rows.length} export${rows.length === 1 ? "" : "s"}`;
    body.replaceChildren();
    drawn = 0;
    draw(PIECE);
    document.querySelector(".list").scrollTop = 0;
  }

  function sort(number) {
    const first = columns[number].numeric;
    order = order.column !== number ? { column: number, down: first } : order.down === first ? { column: number, down: !first } : { column: -1, down: false };
    [...head.cells].forEach((one, place) => {
      if (place === order.column) one.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else one.removeAttribute("aria-sort");
    });
    changed();
  }

  function toggle(button) {
    const row = rows[Number(button.dataset.row)];
    const place = button.closest("tr");
    if (open.delete(row.number)) place.nextElementSibling.remove();
    else {
      open.add(row.number);
      place.after(more(row));
    }
    button.setAttribute("aria-expanded", String(open.has(row.number)));
    remember();
  }

  // -- the address ------------------------------------------------------------------------

  let own = "";

  /** Write filters, order and the only open export into the address, so that a link shows the same. */
  function remember() {
    const state = new URLSearchParams();
    if (words.value) state.set("words", words.value);
    for (const [number, select] of selects) if (select.value) state.set(columns[number].key, select.value.slice(1));
    if (order.column >= 0) state.set("order", `${order.down ? "-" : ""}${columns[order.column].key}`);
    if (open.size === 1) state.set("export", rows[[...open][0]].cells[0]);
    own = state.size ? `#${state}` : "";
    history.replaceState(null, "", own || location.pathname + location.search);
  }

  function follow() {
    if (location.hash === own || /^#[\w-]*$/.test(location.hash)) return;
    const state = new URLSearchParams(location.hash.slice(1));
    words.value = state.get("words") || "";
    for (const [number, select] of selects) {
      const value = state.get(columns[number].key);
      select.value = value === null ? "" : `=${value}`;
      if (select.selectedIndex < 0) select.value = "";
    }
    const asked = state.get("order") || "";
    order = { column: columns.findIndex((one) => one.key === asked.replace(/^-/, "")), down: asked.startsWith("-") };
    const wanted = rows.find((row) => row.cells[0] === state.get("export"));
    if (wanted) open.add(wanted.number);
    update();
    if (wanted) {
      while (drawn < shown.length && !body.querySelector(`[data-row="${wanted.number}"]`)) draw(PIECE);
      body.querySelector(`[data-row="${wanted.number}"]`)?.scrollIntoView();
    } else byId("exports").scrollIntoView();
    own = location.hash;
  }

  function changed() {
    update();
    remember();
  }

  // -- beginning --------------------------------------------------------------------------

  function choice(number) {
    const counts = new Map();
    for (const text of rows.flatMap((row) => row.choices[number])) counts.set(text, (counts.get(text) || 0) + 1);
    if (counts.size < 2) return;
    const select = element("select", {}, element("option", { value: "" }, "any"));
    for (const [text, count] of [...counts].sort(([a], [b]) => (a < b ? -1 : 1))) select.append(element("option", { value: `=${text}` }, `${text} (${count})`));
    select.addEventListener("change", changed);
    selects.set(number, select);
    byId("choices").append(element("label", {}, columns[number].title, select));
  }

  function titles() {
    columns.forEach((column, number) => {
      const button = element("button", { type: "button" }, column.title);
      button.addEventListener("click", () => sort(number));
      head.append(element("th", { scope: "col", class: column.right ? "right" : "" }, button));
    });
  }

  body.addEventListener("click", (event) => {
    const button = event.target.closest(".opener");
    if (button) toggle(button);
  });
  words.addEventListener("input", changed);
  byId("reset").addEventListener("click", () => {
    words.value = "";
    for (const select of selects.values()) select.value = "";
    changed();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches?.("input, select, textarea")) return;
    words.focus();
    event.preventDefault();
  });
  addEventListener("beforeprint", () => draw(rows.length));
  addEventListener("hashchange", follow);

  (async () => {
    try {
      const data = await unpack(tag);
      columns = data.columns;
      rows = data.rows.map((row, number) => ({
        number,
        worst: row.w,
        cells: row.c,
        choices: row.f,
        keys: row.c.map((text, place) => (columns[place].numeric ? row.k[place] : text)),
        haystack: [...row.c, row.m.error, ...row.m.findings.map((one) => `${one[1]} ${one[3]}`)].join("\n").toLowerCase(),
        more: row.m,
      }));
      titles();
      columns.forEach((column, number) => column.choice && choice(number));
      update();
      follow();
      new IntersectionObserver((entries) => {
        if (entries.some((entry) => entry.isIntersecting) && drawn < shown.length) draw(PIECE);
      }, { rootMargin: "600px" }).observe(byId("end"));
      document.documentElement.dataset.ready = "yes";
    } catch (error) {
      byId("count").textContent = "The table could not be shown: this browser is too old, or the file is damaged.";
      throw error;
    }
  })();
})();
