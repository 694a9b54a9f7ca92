// Picture: draws the boxes, and navigates among them with pointer and keys.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = 24;
const READABLE = 0.75;
const SMALLEST = 0.42;
const LEGIBLE = 0.3;

function svgElement(name, attributes = {}, text = "") {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

class Picture {
  /** `chosen(node, op)` is called when the user selects a box; `go(op)` when an op of another box. */
  constructor(svg, chosen, go) {
    this.go = go;
    this.svg = svg;
    this.world = svg.querySelector(":scope > g");
    this.chosen = chosen;
    this.current = null;
    this.panzoom = Panzoom(this.world, {
      canvas: true, minScale: 0.03, maxScale: 4, step: 0.25, cursor: "grab", handleStartEvent: () => {},
    });
    svg.addEventListener("wheel", (event) => this.panzoom.zoomWithWheel(event), { passive: false });
    svg.addEventListener("pointerdown", (event) => {
      this.pressed = { x: event.clientX, y: event.clientY };
    });
    svg.addEventListener("click", (event) => this.clicked(event));
    svg.addEventListener("keydown", (event) => this.keyed(event));
    const defs = svg.querySelector("defs");
    if (!defs) return; // the arrowhead of another picture is good for all
    const arrow = svgElement("marker", {
      id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse",
    });
    arrow.append(svgElement("path", { d: "M0 0L8 4L0 8z" }));
    defs.append(arrow);
  }

  show(graph) {
    this.graph = graph;
    ROW.width = Math.max(ROW.least, Math.min(ROW.most, this.svg.getBoundingClientRect().width / 0.6));
    this.layout ||= new Map();
    if (!this.layout.has(graph)) this.layout.set(graph, new Layout(graph));
    this.current = null;
    this.draw();
    this.fit();
  }

  /** Layout of a box of the current graph. */
  laid(node) {
    return this.layout.get(this.graph).of(node);
  }

  // -- drawing ------------------------------------------------------------------------

  draw() {
    const focused = this.svg.contains(document.activeElement);
    this.places = new Map();
    const page = document.createDocumentFragment();
    this.contents(this.graph.root, 0, 0, page, page);
    this.world.replaceChildren(page);
    this.mark(focused);
  }

  /** Draw the arrows and boxes inside an open box; (x, y) is the origin of its contents. */
  contents(node, x, y, into) {
    const laid = this.laid(node);
    const group = svgElement("g", node.parent ? { role: "group" } : {});
    for (const edge of laid.edges) group.append(this.arrow(edge, x, y));
    for (const item of laid.items) {
      group.append(item.node ? this.box(item.node, x + item.x, y + item.y) : this.stub(item, x + item.x, y + item.y));
    }
    into.append(group);
  }

  arrow(edge, x, y) {
    const points = edge.points.map((point) => [point.x + x, point.y + y]);
    let d = `M${points[0]}`;
    for (let i = 1; i < points.length - 1; i++) {
      const middle = [(points[i][0] + points[i + 1][0]) / 2, (points[i][1] + points[i + 1][1]) / 2];
      d += i === points.length - 2 ? `Q${points[i]} ${points[i + 1]}` : `Q${points[i]} ${middle}`;
    }
    if (points.length === 2) d += `L${points[1]}`;
    const path = svgElement("path", { d, class: edge.faint ? "arrow faint" : "arrow", "marker-end": "url(#arrow)" });
    if (edge.from) {
      path.dataset.from = edge.from.first;
      path.dataset.to = edge.to.first;
      path.append(svgElement("title", {}, visible(edge.value)));
    }
    return path;
  }

  stub(item, x, y) {
    const group = svgElement("g", { class: "stub", transform: `translate(${x} ${y})` });
    group.dataset.op = item.stub;
    group.append(
      svgElement("rect", { width: item.width, height: item.height, rx: 11 }),
      svgElement("text", { x: 8, y: 15 }, item.title),
      svgElement("title", {}, visible(this.graph.names[item.stub])),
    );
    return group;
  }

  box(node, x, y) {
    const laid = this.laid(node);
    const { inside } = node;
    this.places.set(node, { x, y, width: laid.width, height: laid.height });
    const group = svgElement("g", {
      class: `box k-${node.kind}${inside && node.open ? " open" : ""}`, role: "treeitem", tabindex: -1,
      "aria-label": this.graph.label(node), "aria-level": node.depth,
    });
    if (inside) group.setAttribute("aria-expanded", String(node.open));
    group.dataset.node = node.first;
    if (inside && node.open) this.frame(node, laid, x, y, group);
    else this.card(node, laid, x, y, group);
    if (inside) group.append(this.sign(node.open, x + laid.width - 12, y + (node.open ? 15 : 13)));
    this.marks(node, x, y, laid.width, group);
    if (inside && node.open) this.contents(node, x + laid.left, y + laid.top, group);
    return group;
  }

  frame(node, laid, x, y, group) {
    group.append(
      svgElement("rect", { x, y, width: laid.width, height: laid.height, rx: 8, class: "frame" }),
      svgElement("rect", { x, y, width: laid.width, height: BOX.head, rx: 8, class: "head" }),
      svgElement("text", { x: x + 12, y: y + 20, class: "title" }, laid.title),
    );
  }

  card(node, laid, x, y, group) {
    const { width, height } = laid;
    if (laid.round) {
      group.append(
        svgElement("rect", { x, y, width, height, rx: width / 2, class: "card" }),
        svgElement("text", { x: x + width / 2, y: y + 23, class: "sum" }, laid.title),
      );
      return;
    }
    group.append(
      svgElement("rect", { x, y, width, height, rx: 6, class: "card" }),
      svgElement("rect", { x, y, width: BOX.stripe, height, rx: 2, class: "stripe" }),
    );
    const left = x + BOX.pad + BOX.stripe;
    group.append(svgElement("text", { x: left, y: y + BOX.pad + 11, class: "title" }, laid.title));
    laid.lines.forEach((line, number) => {
      group.append(svgElement("text", { x: left, y: y + BOX.pad + 11 + BOX.line * (number + 1) }, line));
    });
  }

  sign(open, x, y) {
    const group = svgElement("g", { class: "sign" });
    group.dataset.sign = "";
    group.append(
      svgElement("circle", { cx: x, cy: y, r: 8 }),
      svgElement("path", { d: `M${x - 4} ${y}h8${open ? "" : `M${x} ${y - 4}v8`}` }),
    );
    return group;
  }

  /** Draw the badges of a box: number and worst severity of its findings, and its hidden state. */
  marks(node, x, y, width, group) {
    let left = x + width - 6;
    if (node.findings.length) {
      const worst = ["error", "warning", "note"].find((kind) => node.findings.some((f) => f.severity === kind));
      const badge = svgElement("g", { class: `badge ${worst}` });
      left -= 20;
      badge.append(
        svgElement("rect", { x: left, y: y - 9, width: 22, height: 18, rx: 9 }),
        svgElement("text", { x: left + 11, y: y + 4 }, String(node.findings.length)),
        svgElement("title", {}, visible(node.findings.map((f) => `${f.severity} ${f.code}: ${f.message.replaceAll("`", "")}`).join("\n"))),
      );
      group.append(badge);
    }
    const tap = this.tapIn(node);
    if (tap) {
      const badge = svgElement("g", { class: "tap" });
      badge.append(
        svgElement("rect", { x, y: y - 9, width: 44, height: 16, rx: 3 }),
        svgElement("text", { x: x + 22, y: y + 3 }, `tap ${tap.layer}`),
        svgElement("title", {}, `hidden state of layer ${tap.layer}`),
      );
      group.append(badge);
    }
  }

  /** Hidden state of an op, or the first one in a closed box. */
  tapIn(node) {
    if (node.op !== undefined) return this.graph.taps.get(node.op);
    if (node.open || node.flow) return undefined;
    const inside = [...this.graph.taps].find(([op]) => this.graph.within(this.graph.leaf[op], node));
    return inside && inside[1];
  }

  // -- selecting a box ------------------------------------------------------------------

  element(node) {
    return node && this.world.querySelector(`[data-node="${node.first}"]`);
  }

  /** Mark the current box and its arrows; the tab key reaches only the current box. */
  mark(focus) {
    for (const old of this.world.querySelectorAll(".current, .near")) old.classList.remove("current", "near");
    for (const old of this.world.querySelectorAll('[tabindex="0"]')) old.setAttribute("tabindex", "-1");
    const element = this.element(this.current) || this.element(this.graph.root.children[0]);
    if (!element) return;
    element.setAttribute("tabindex", "0");
    if (element.dataset.node === String(this.current?.first)) {
      element.classList.add("current");
      const key = this.current.first;
      for (const path of this.world.querySelectorAll(`[data-from="${key}"], [data-to="${key}"]`)) path.classList.add("near");
    }
    if (focus) element.focus({ preventScroll: true });
  }

  /** Select a box. */
  turn(node, { op = node.op, focus = true, tell = true } = {}) {
    this.current = node;
    this.mark(focus);
    if (tell) this.chosen(node, op);
  }

  /** Open the boxes around a box, select it, and move it to the middle of the picture. */
  reveal(node, options = {}) {
    if (options.open && this.graph.pending(node)) return this.read(node, () => this.reveal(node, options));
    for (let outer = node.parent; outer; outer = outer.parent) this.opening(outer, true);
    if (options.open) this.opening(node, true);
    this.draw();
    this.turn(node, options);
    this.centre(node);
    return undefined;
  }

  opening(node, open) {
    if (node.open === open || !node.inside || !node.parent) return;
    node.open = open;
    this.layout.get(this.graph).changed(node);
  }

  /** Read the inside of a box, then go on if the same graph is still shown. */
  async read(node, then) {
    const { graph } = this;
    await graph.open(node);
    if (graph === this.graph) await then();
  }

  /** Open or close a box without moving it on the screen. */
  toggle(node) {
    if (this.graph.pending(node)) return this.read(node, () => node.open || this.toggle(node));
    const before = this.places.get(node);
    this.opening(node, !node.open);
    this.draw();
    const after = this.places.get(node);
    const { x, y } = this.panzoom.getPan();
    if (before && after) this.panzoom.pan(x + before.x - after.x, y + before.y - after.y, { force: true });
    if (node.open && after) this.bring(node, after);
    return undefined;
  }

  closeAll() {
    for (const node of this.graph.nodes) {
      if (node?.parent && node.open !== node.flow) this.opening(node, node.flow);
    }
    while (this.current?.parent && !this.places.has(this.current)) this.current = this.current.parent;
    this.draw();
    this.fit();
  }

  clicked(event) {
    if (this.pressed && Math.hypot(event.clientX - this.pressed.x, event.clientY - this.pressed.y) > 5) return;
    const stub = event.target.closest("[data-op]");
    if (stub) {
      this.go(Number(stub.dataset.op));
      return;
    }
    const element = event.target.closest("[data-node]");
    if (!element) return;
    const node = this.graph.nodes[Number(element.dataset.node)];
    const sign = event.target.closest("[data-sign]");
    this.turn(node);
    if (node.inside && (sign || !node.open)) this.toggle(node);
  }

  keyed(event) {
    this.current ||= this.graph.nodes[Number(event.target.closest("[data-node]")?.dataset.node)] || null;
    if (event.ctrlKey || event.metaKey || event.altKey || !this.current) return;
    const arrows = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    if (arrows[event.key]) this.step(...arrows[event.key]);
    else if (event.key === "Enter" || event.key === " ") {
      if (this.current.inside) this.toggle(this.current);
      this.turn(this.current);
    } else if (event.key === "Escape" || event.key === "Backspace") {
      const outer = this.current.parent;
      if (!outer?.parent) return;
      this.turn(outer);
      if (event.key === "Backspace") this.toggle(outer);
      this.keepInView(this.places.get(outer));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Select the nearest box in a direction. */
  step(dx, dy) {
    const here = this.places.get(this.current);
    if (!here) return;
    const middle = (place) => [place.x + place.width / 2, place.y + Math.min(place.height, 60) / 2];
    const [x, y] = middle(here);
    let best = null;
    let least = Infinity;
    for (const [node, place] of this.places) {
      if (node === this.current) continue;
      const [ox, oy] = middle(place);
      const along = (ox - x) * dx + (oy - y) * dy;
      const across = Math.abs((ox - x) * dy) + Math.abs((oy - y) * dx);
      const cost = along + 2.5 * across;
      if (along > 4 && cost < least) {
        least = cost;
        best = node;
      }
    }
    if (!best) return;
    this.turn(best);
    this.keepInView(this.places.get(best));
  }

  // -- moving the view ------------------------------------------------------------------

  /** Scale and pan so that a point of the picture is at a point of the window. */
  look(scale, x, y, atX, atY) {
    this.panzoom.zoom(scale, { force: true });
    this.panzoom.pan(atX / scale - x, atY / scale - y, { force: true });
  }

  zoomed(direction) {
    const view = this.svg.getBoundingClientRect();
    const point = { clientX: view.left + view.width / 2, clientY: view.top + view.height / 2 };
    this.panzoom.zoomToPoint(this.panzoom.getScale() * 1.3 ** direction, point);
  }

  fit() {
    const { width, height } = this.laid(this.graph.root);
    const view = this.svg.getBoundingClientRect();
    const scale = Math.min((view.width - 2 * MARGIN) / width, (view.height - 2 * MARGIN) / height, 1.1);
    const across = (view.width - 2 * MARGIN) / width;
    const readable = Math.max(scale, Math.min(0.55, across < LEGIBLE ? (view.width - 2 * MARGIN) / Math.min(width, 500) : across));
    const left = Math.max(MARGIN, (view.width - width * readable) / 2);
    this.look(readable, 0, 0, readable > scale ? Math.min(left, (view.width - width * readable) / 2) : left, MARGIN);
  }

  centre(node) {
    const place = this.places.get(node);
    const view = this.svg.getBoundingClientRect();
    const room = [view.width - 2 * MARGIN, view.height - 2 * MARGIN];
    const whole = Math.min(room[0] / place.width, room[1] / place.height);
    const scale = Math.max(SMALLEST, Math.min(Math.max(this.panzoom.getScale(), 0.9), 1.2, whole));
    const tall = place.height * scale > room[1];
    this.look(
      scale, place.x + place.width / 2, tall ? place.y : place.y + place.height / 2,
      view.width / 2, tall ? MARGIN : view.height / 2,
    );
  }

  /** Show a box that was just opened: in place if it fits and is readable there, otherwise in the middle. */
  bring(node, place) {
    const scale = this.panzoom.getScale();
    const view = this.svg.getBoundingClientRect();
    const fits = place.width * scale < view.width - MARGIN && place.height * scale < view.height - MARGIN;
    if (fits && scale >= READABLE) this.keepInView(place);
    else this.centre(node);
  }

  /** Move the view as little as possible to show a box, or the start of a box that is too large. */
  keepInView(place) {
    const scale = this.panzoom.getScale();
    const view = this.svg.getBoundingClientRect();
    let { x, y } = this.panzoom.getPan();
    const shift = (pan, start, size, room) => {
      if ((start + size + pan) * scale > room - MARGIN) pan = (room - MARGIN) / scale - start - size;
      if ((start + pan) * scale < MARGIN) pan = MARGIN / scale - start;
      return pan;
    };
    x = shift(x, place.x, place.width, view.width);
    y = shift(y, place.y, place.height, view.height);
    this.panzoom.pan(x, y, { force: true });
  }

  /** Scale the whole picture to the width of the page for printing, or restore the view. */
  printed(begins) {
    const { width, height } = this.laid(this.graph.root);
    if (begins) this.svg.setAttribute("viewBox", `-8 -12 ${width + 16} ${height + 24}`);
    else this.svg.removeAttribute("viewBox");
  }
}
