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
  let own = "";

  /** One picture with the part that it shows; the second pane has the head of the target in the first. */
  class Pane {
    constructor(number) {
      this.element = document.querySelectorAll("#canvas .pane")[number];
      this.part = null;
      this.graph = null;
      this.picture = new Picture(this.element.querySelector("svg"), (node, op) => this.tell(node, op), (op) => go(op, {}, this));
    }

    async tell(node, op) {
      active = this;
      if (this.graph.pending(node)) await this.graph.open(node);
      if (active !== this || this.picture.current !== node) return; // the user went on meanwhile
      details.model = this.part.model;
      details.show(this.graph, node, op);
      remember(node, op);
    }

    show(one, graph) {
      this.element.hidden = false;
      Object.assign(this, { part: one, graph });
      const caption = one.caption || `${one.part}: ${one.file}`;
      this.element.querySelector(".caption b").textContent = visible(caption);
      this.picture.show(graph);
    }

    hide() {
      this.element.hidden = true;
      Object.assign(this, { part: null, graph: null });
    }
  }

  const panes = [new Pane(0), new Pane(1)];
  let active = panes[0];
  const details = new Details(byId("details"), (op) => go(op));
  const named = (key) => parts.find((one) => one.key === key);

  function piece(name) {
    return unpack(carried.get(name));
  }

  async function load(key) {
    if (!graphs.has(key)) graphs.set(key, piece(key).then((raw) => new Graph(raw, (name) => piece(`${key}/${name}`))));
    return graphs.get(key);
  }

  /** Make the pane with a part the active one; show the part in the first pane if no pane has it. */
  async function open(key) {
    const shown = panes.find((pane) => pane.part?.key === key);
    active = shown || panes[0];
    if (shown) return;
    const one = named(key);
    const graph = await load(key);
    const head = one.beside && carried.has(one.beside) ? await load(one.beside) : null;
    byId("canvas").classList.toggle("two", Boolean(head));
    if (head) panes[1].element.hidden = false;
    else panes[1].hide();
    panes[0].show(one, graph);
    if (head) panes[1].show(named(one.beside), head);
    byId("part").value = key;
    found.hidden = true;
  }

  /** Show the second pane no longer. */
  function alone() {
    panes[1].hide();
    active = panes[0];
    byId("canvas").classList.remove("two");
    active.picture.fit();
  }

  /** Show an op; a constant has no box of its own. */
  async function go(op, options = {}, pane = active) {
    active = pane;
    const { graph, part, picture } = pane;
    await graph.reach(op);
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
    const { part, graph } = active;
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
      const op = asked.has("op") ? await there.find(asked.get("op"), asked.get("id")) : null;
      const layer = asked.has("layer") && !asked.has("op")
        ? there.nodes.find((node) => node && node.layer !== undefined && String(node.layer) === asked.get("layer")) : null;
      if (op === null && !layer) continue;
      await open(one.key);
      if (op !== null) await go(op, options);
      else await active.picture.reveal(layer, { ...options, open: true });
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
    const op = link.dataset.position !== undefined ? Number(link.dataset.position) : await active.graph.find(link.dataset.op);
    byId("picture").scrollIntoView();
    if (op !== null) await go(op);
  });

  // -- search ---------------------------------------------------------------------------

  let marked = -1;
  let hits = [];
  let asked = 0;
  let finding = Promise.resolve();

  /** Parts with the one that is shown first. */
  const searched = () => [...new Set([active.part, ...panes.map((pane) => pane.part).filter(Boolean), ...parts])];

  async function find() {
    const own = ++asked;
    const text = search.value;
    const next = [];
    let total = 0;
    for (const one of searched()) {
      const some = await (await load(one.key)).search(text, MOST_FOUND);
      if (own !== asked) return; // the text has changed
      total += some.total;
      next.push(...some.found.slice(0, MOST_FOUND - next.length).map((hit) => ({ ...hit, key: one.key })));
    }
    hits = next;
    marked = -1;
    const items = hits.map((hit, number) => {
      const item = element("li", { role: "option", id: `found-${number}`, "aria-selected": "false" },
        element("b", {}, visible(hit.type)), " ", element("span", { class: "name" }, visible(hit.name)),
        hit.key === active.part.key ? null : element("span", { class: "where" }, ` ${visible(named(hit.key).part)}`));
      item.dataset.found = number;
      return item;
    });
    if (total > hits.length) items.push(element("li", { class: "note", role: "presentation" }, `${total.toLocaleString("en-US")} found; showing the first ${hits.length}`));
    if (text.trim() && !total) items.push(element("li", { class: "note", role: "presentation" }, "Nothing found"));
    found.replaceChildren(...items);
    found.hidden = !items.length;
    search.setAttribute("aria-expanded", String(!found.hidden));
  }

  async function choose(item) {
    if (!item?.dataset.found) return;
    const hit = hits[Number(item.dataset.found)];
    found.hidden = true;
    search.setAttribute("aria-expanded", "false");
    await open(hit.key);
    if (hit.box !== undefined) await active.picture.reveal(await active.graph.box(hit.box), { open: true });
    else await go(hit.op);
  }

  const begin = () => {
    finding = find();
  };
  search.addEventListener("input", begin);
  search.addEventListener("focus", () => {
    if (search.value) begin();
  });
  search.addEventListener("keydown", (event) => {
    const items = [...found.querySelectorAll("[data-found]")];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      marked = Math.max(0, Math.min(items.length - 1, marked + (event.key === "ArrowDown" ? 1 : -1)));
      items.forEach((item, number) => item.setAttribute("aria-selected", String(number === marked)));
      items[marked]?.scrollIntoView({ block: "nearest" });
      search.setAttribute("aria-activedescendant", items[marked]?.id || "");
    } else if (event.key === "Enter") {
      const chosen = Math.max(marked, 0);
      finding.then(() => choose(found.querySelectorAll("[data-found]")[chosen]));
    } else if (event.key === "Escape") {
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
    byId("part").append(element("option", { value: one.key }, `${visible(name)} (${counted(one.ops, "op")} without constants)`));
  }
  byId("part").addEventListener("change", (event) => open(event.target.value));
  const shown = () => panes.filter((pane) => pane.graph);
  byId("zoom-in").addEventListener("click", () => active.picture.zoomed(1));
  byId("zoom-out").addEventListener("click", () => active.picture.zoomed(-1));
  byId("fit").addEventListener("click", () => shown().forEach((pane) => pane.picture.fit()));
  byId("close-all").addEventListener("click", () => shown().forEach((pane) => pane.picture.closeAll()));
  byId("alone").addEventListener("click", alone);
  const help = () => {
    byId("keys").hidden = !byId("keys").hidden;
    byId("help").setAttribute("aria-expanded", String(!byId("keys").hidden));
  };
  byId("help").addEventListener("click", help);
  const keys = {
    "+": () => active.picture.zoomed(1), "=": () => active.picture.zoomed(1), "-": () => active.picture.zoomed(-1), 0: () => active.picture.fit(),
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches?.("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") search.focus();
    else if (event.key === "?") help();
    else if (keys[event.key] && canvas.contains(event.target)) keys[event.key]();
    else return;
    event.preventDefault();
  });
  addEventListener("beforeprint", () => shown().forEach((pane) => pane.picture.printed(true)));
  addEventListener("afterprint", () => shown().forEach((pane) => pane.picture.printed(false)));
  let settled = 0;
  addEventListener("resize", () => {
    clearTimeout(settled);
    settled = setTimeout(() => shown().forEach(({ picture }) => {
      if (picture.places.has(picture.current)) picture.keepInView(picture.places.get(picture.current));
    }), 100);
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
