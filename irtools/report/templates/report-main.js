// Connects picture, details, search and links.

(() => {
  const canvas = document.getElementById("canvas");
  if (!canvas) return;

  const MOST_FOUND = 60;
  const byId = (id) => document.getElementById(id);
  const parts = JSON.parse(byId("parts").textContent);
  const start = JSON.parse(byId("start").textContent);
  const carried = new Map([...document.querySelectorAll("script.graph")].map((tag) => [tag.dataset.key, tag]));
  const graphs = new Map();
  const status = byId("status");
  const search = byId("search");
  const found = byId("found");
  let part = null;
  let graph = null;
  let own = "";

  const picture = new Picture(byId("svg"), (node, op) => {
    details.model = part.model;
    details.show(graph, node, op);
    remember(node, op);
  });
  const details = new Details(byId("details"), (op) => go(op));

  async function load(key) {
    if (!graphs.has(key)) graphs.set(key, unpack(carried.get(key)).then((raw) => new Graph(raw)));
    return graphs.get(key);
  }

  /** Show a part if another part is shown. */
  async function open(key) {
    if (part?.key === key) return;
    const next = await load(key);
    part = parts.find((candidate) => candidate.key === key);
    graph = next;
    byId("part").value = key;
    picture.show(graph);
    found.hidden = true;
  }

  /** Show an op; a constant has no box of its own. */
  function go(op, options = {}) {
    const node = graph.holder(op);
    if (!node) {
      details.model = part.model;
      details.show(graph, graph.root, op);
      return;
    }
    picture.reveal(node, { ...options, op });
    const outer = node.op !== op;
    status.textContent = outer ? `${visible(graph.type(op))} belongs to the marked box` : "";
  }

  // -- links ----------------------------------------------------------------------------

  /** Write the current op or layer into the address. */
  function remember(node, op) {
    const words = [];
    if (part.key !== start.part) words.push(`part=${encodeURIComponent(parts.length > 1 && part.model ? part.key : part.part)}`);
    if (op !== undefined) {
      words.push(`op=${encodeURIComponent(graph.names[op])}`);
      if (!graph.unique(op)) words.push(`id=${graph.ids[op]}`);
    } else if (node.layer !== undefined && node.layer !== null) words.push(`layer=${node.layer}`);
    own = `#${words.join("&")}`;
    history.replaceState(null, "", words.length ? own : location.pathname + location.search);
  }

  function wanted(hash) {
    const values = new Map();
    for (const word of hash.slice(1).split("&")) {
      const [key, value] = [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)];
      try {
        values.set(key, decodeURIComponent(value));
      } catch {
        values.set(key, value);
      }
    }
    return values;
  }

  /** Parts in search order. */
  function candidates(name) {
    const chosen = parts.filter((one) => one.key === name || one.part === name);
    const first = parts.find((one) => one.key === start.part);
    return chosen.length ? chosen : [...new Set([first, ...parts])];
  }

  /** Follow `#op=NAME` or `#layer=N`, with optional `part=` and `id=`. */
  async function follow(hash, options = {}) {
    const asked = wanted(hash);
    if (!asked.has("op") && !asked.has("layer")) return false;
    for (const one of candidates(asked.get("part"))) {
      const there = await load(one.key);
      const op = asked.has("op") ? there.find(asked.get("op"), asked.get("id")) : null;
      const layer = asked.has("layer") && !asked.has("op")
        ? there.nodes.find((node) => node.layer !== undefined && String(node.layer) === asked.get("layer")) : null;
      if (op === null && !layer) continue;
      await open(one.key);
      if (op !== null) go(op, options);
      else picture.reveal(layer, { ...options, open: true });
      byId("picture").scrollIntoView();
      return true;
    }
    status.textContent = `There is no ${asked.has("op") ? "op" : "layer"} ${visible(asked.get("op") ?? asked.get("layer"))} here`;
    byId("picture").scrollIntoView();
    return false;
  }

  addEventListener("hashchange", () => {
    if (location.hash !== own) follow(location.hash);
  });

  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-part]");
    if (!link || !carried.has(link.dataset.part)) return;
    event.preventDefault();
    await open(link.dataset.part);
    const op = link.dataset.position !== undefined ? Number(link.dataset.position) : graph.find(link.dataset.op);
    byId("picture").scrollIntoView();
    if (op !== null) go(op);
  });

  // -- search ---------------------------------------------------------------------------

  let marked = -1;

  function find() {
    const { found: ops, total } = graph.search(search.value, MOST_FOUND);
    marked = -1;
    const items = ops.map((op, number) => {
      const item = element("li", { role: "option", id: `found-${number}`, "aria-selected": "false" },
        element("b", {}, visible(graph.type(op))), " ", element("span", { class: "name" }, visible(graph.names[op])));
      item.dataset.found = op;
      return item;
    });
    if (total > ops.length) items.push(element("li", { class: "note", role: "presentation" }, `${total} found; showing the first ${ops.length}`));
    if (search.value.trim() && !total) items.push(element("li", { class: "note", role: "presentation" }, "Nothing found"));
    found.replaceChildren(...items);
    found.hidden = !items.length;
    search.setAttribute("aria-expanded", String(!found.hidden));
  }

  function choose(item) {
    if (!item?.dataset.found) return;
    found.hidden = true;
    search.setAttribute("aria-expanded", "false");
    go(Number(item.dataset.found));
  }

  search.addEventListener("input", find);
  search.addEventListener("focus", () => {
    if (search.value) find();
  });
  search.addEventListener("keydown", (event) => {
    const items = [...found.querySelectorAll("[data-found]")];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      marked = Math.max(0, Math.min(items.length - 1, marked + (event.key === "ArrowDown" ? 1 : -1)));
      items.forEach((item, number) => item.setAttribute("aria-selected", String(number === marked)));
      items[marked]?.scrollIntoView({ block: "nearest" });
      search.setAttribute("aria-activedescendant", items[marked]?.id || "");
    } else if (event.key === "Enter") choose(items[Math.max(marked, 0)]);
    else if (event.key === "Escape") {
      found.hidden = true;
      search.setAttribute("aria-expanded", "false");
    } else return;
    event.preventDefault();
  });
  found.addEventListener("mousedown", (event) => event.preventDefault());
  found.addEventListener("click", (event) => choose(event.target.closest("li")));
  search.addEventListener("blur", () => {
    found.hidden = true;
  });

  // -- buttons and keys -------------------------------------------------------------------

  const several = new Set(parts.map((one) => one.model)).size > 1;
  for (const one of parts) {
    const name = several ? `${one.export}: ${one.part}` : one.part;
    byId("part").append(element("option", { value: one.key }, `${visible(name)} (${one.ops} ops without constants)`));
  }
  byId("part").addEventListener("change", (event) => open(event.target.value));
  byId("zoom-in").addEventListener("click", () => picture.zoomed(1));
  byId("zoom-out").addEventListener("click", () => picture.zoomed(-1));
  byId("fit").addEventListener("click", () => picture.fit());
  byId("close-all").addEventListener("click", () => picture.closeAll());
  const help = () => {
    byId("keys").hidden = !byId("keys").hidden;
    byId("help").setAttribute("aria-expanded", String(!byId("keys").hidden));
  };
  byId("help").addEventListener("click", help);
  const keys = { "+": () => picture.zoomed(1), "=": () => picture.zoomed(1), "-": () => picture.zoomed(-1), 0: () => picture.fit() };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches?.("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") search.focus();
    else if (event.key === "?") help();
    else if (keys[event.key] && canvas.contains(event.target)) keys[event.key]();
    else return;
    event.preventDefault();
  });
  addEventListener("beforeprint", () => graph && picture.printed(true));
  addEventListener("afterprint", () => graph && picture.printed(false));
  let settled = 0;
  addEventListener("resize", () => {
    clearTimeout(settled);
    settled = setTimeout(() => graph && picture.current && picture.places.has(picture.current) && picture.keepInView(picture.places.get(picture.current)), 100);
  });

  (async () => {
    try {
      if (!(await follow(location.hash, { focus: false }))) {
        await open(start.part);
        const word = start.op ? `#op=${encodeURIComponent(start.op)}` : start.layer !== null ? `#layer=${start.layer}` : "";
        if (word) await follow(word, { focus: false });
      }
      document.documentElement.dataset.ready = "yes";
    } catch (error) {
      status.textContent = "The picture could not be shown: this browser is too old, or the file is damaged.";
      throw error;
    }
  })();
})();
