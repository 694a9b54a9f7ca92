// Layout of the boxes. Each open box has its own layout, so opening one affects only itself and the boxes around it.

const BOX = { pad: 10, title: 18, line: 15, stripe: 5, widest: 250, narrowest: 96, head: 30, inset: 16 };
const ROW = { width: 1180, least: 320, most: 1180, gap: 22, across: 34 };
const MANY_READERS = 3;
const CROWD = 12;

const pen = document.createElement("canvas").getContext("2d");

/** Width of a text in the picture. */
function textWidth(text, bold) {
  pen.font = `${bold ? "600 13px" : "11px"} system-ui, sans-serif`;
  return pen.measureText(text).width;
}

/** Shorten a text to a width. */
function fitted(text, width, bold) {
  if (textWidth(text, bold) <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(`${text.slice(0, middle)}\u2026`, bold) <= width) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}\u2026`;
}

class Layout {
  constructor(graph) {
    this.graph = graph;
  }

  /** Size and contents of a box in its current state, open or closed. */
  of(node) {
    node.laid ||= node.open && node.inside ? this.opened(node) : this.closed(node);
    return node.laid;
  }

  /** Discard the layouts that depend on the state of a box. */
  changed(node) {
    for (let outer = node; outer; outer = outer.parent) outer.laid = null;
  }

  closed(node) {
    const room = BOX.widest - 2 * BOX.pad - BOX.stripe;
    const title = fitted(visible(this.graph.titleOf(node)), room - (node.inside ? 18 : 0), true);
    if (title === "+" && !node.inside) return { title, lines: [], width: 34, height: 34, round: true };
    const lines = this.graph.linesOf(node).map((line) => fitted(visible(line), room, false));
    const widest = Math.max(textWidth(title, true) + (node.inside ? 20 : 0), ...lines.map((l) => textWidth(l)));
    return {
      title,
      lines,
      width: Math.ceil(Math.max(BOX.narrowest, widest + 2 * BOX.pad + BOX.stripe)),
      height: BOX.title + BOX.line * lines.length + 2 * BOX.pad - 4,
    };
  }

  opened(node) {
    const inner = node.flow ? this.rows(node) : this.ranked(node);
    const title = visible([this.graph.titleOf(node), ...node.lines.slice(0, 2)].join("  \u00b7  "));
    if (!node.parent) return { ...inner, title: "", top: 0 };
    const width = Math.max(inner.width + 2 * BOX.inset, 180);
    return {
      ...inner,
      title: fitted(title, width - 50, true),
      width,
      height: inner.height + BOX.head + 2 * BOX.inset,
      left: BOX.inset + (width - 2 * BOX.inset - inner.width) / 2,
      top: BOX.head + BOX.inset,
    };
  }

  /** Lay out boxes one after the other in rows; an open box has its own row. */
  rows(node) {
    const items = [];
    const edges = [];
    const spread = [];
    let row = [];
    const finish = () => {
      if (row.length) spread.push(row);
      row = [];
    };
    let used = 0;
    for (const child of node.children) {
      const laid = this.of(child);
      if (child.open || used + laid.width > ROW.width) {
        finish();
        used = 0;
      }
      row.push({ node: child, width: laid.width, height: laid.height });
      used += laid.width + ROW.across;
      if (child.open) {
        finish();
        used = 0;
      }
    }
    finish();
    let y = 0;
    let width = 0;
    for (const some of spread) {
      const height = Math.max(...some.map((item) => item.height));
      let x = 0;
      for (const item of some) {
        Object.assign(item, { x, y: y + (height - item.height) / 2 });
        items.push(item);
        x += item.width + ROW.across;
      }
      width = Math.max(width, x - ROW.across);
      y += height + ROW.gap * 1.6;
    }
    items.slice(1).forEach((item, number) => edges.push({ points: between(items[number], item) }));
    return { items, edges, width, height: y - ROW.gap * 1.6 };
  }

  /** Lay out boxes in the order of computation, from top to bottom. */
  ranked(node) {
    const { edges, crossing } = this.graph.wiring(node);
    const drawing = new dagre.graphlib.Graph({ multigraph: true });
    drawing.setGraph({ nodesep: 18, ranksep: 26, edgesep: 10, ranker: "tight-tree" });
    drawing.setDefaultEdgeLabel(() => ({}));
    const add = (key, item) => drawing.setNode(key, item);
    for (const child of node.children) {
      const { width, height } = this.of(child);
      add(`n${child.first}`, { node: child, width, height });
    }
    this.edges(node, edges, drawing, add);
    if (node.parent) this.merged(crossing).forEach((end, number) => this.ends(end, number, add, drawing));
    dagre.layout(drawing);
    const items = drawing.nodes().map((key) => {
      const item = drawing.node(key);
      return { ...item, x: item.x - item.width / 2, y: item.y - item.height / 2 };
    });
    const drawn = drawing.edges().map((edge) => ({ ...drawing.edge(edge) }));
    const { width = 0, height = 0 } = drawing.graph();
    return { items, edges: drawn, width: Math.max(width, 0), height: Math.max(height, 0) };
  }

  /** Add the arrows between boxes. A value with many readers is drawn beside each; for a crowd, only its size is shown. */
  edges(frame, edges, drawing, add) {
    const readers = new Map();
    for (const { tail } of edges) readers.set(tail, (readers.get(tail) || 0) + 1);
    const named = new Set();
    edges.forEach((edge, number) => {
      const { tail, head } = edge;
      const count = tail.flow ? 0 : readers.get(tail);
      if (count > CROWD) {
        if (named.has(tail)) return;
        named.add(tail);
        add(`s${number}`, this.stub(edge.op, tail, false, `to ${counted(count, "box")} here`));
        drawing.setEdge(`n${tail.first}`, `s${number}`, { faint: true });
      } else if (count > 2 * MANY_READERS) {
        add(`s${number}`, this.stub(edge.op, tail, true));
        drawing.setEdge(`s${number}`, `n${head.first}`, { faint: true });
      } else {
        const label = { from: tail, to: head, value: this.valueOf(edge) };
        drawing.setEdge(`n${tail.first}`, `n${head.first}`, label, String(number));
      }
    });
  }

  /** Merge arrows across the border: those to many outside boxes share one end, those from a crowd one per reader. */
  merged(crossing) {
    const [inward, outward] = [crossing.filter((end) => end.inward), crossing.filter((end) => !end.inward)];
    const together = (some, way) => ({
      ...some[0], ends: new Set(some.flatMap((end) => [...end.ends])), title: `${way} ${counted(some.length, "box")} outside`,
    });
    const out = outward.length > MANY_READERS ? [together(outward, "to")] : outward;
    if (inward.length <= CROWD) return [...inward, ...out];
    const readers = new Map();
    for (const end of inward) {
      for (const box of end.ends) readers.set(box, [...(readers.get(box) || []), { ...end, ends: [box] }]);
    }
    return [...[...readers.values()].map((some) => (some.length > 1 ? together(some, "from") : some[0])), ...out];
  }

  /** Add an arrow across the border of an open box, with the name of the box at its other end. */
  ends({ inward, there, op, ends, title }, number, add, drawing) {
    const boxes = [...ends];
    const apart = inward && boxes.length > MANY_READERS && boxes.length <= CROWD;
    const groups = apart ? boxes.map((box) => [box]) : [boxes.length > CROWD ? boxes.slice(0, 1) : boxes];
    const crowd = inward && boxes.length > CROWD ? `, to ${counted(boxes.length, "box")}` : "";
    groups.forEach((group, part) => {
      const key = `x${number}.${part}`;
      add(key, this.stub(op, there, inward, title, crowd));
      for (const box of group) {
        if (inward) drawing.setEdge(key, `n${box.first}`, { faint: true });
        else drawing.setEdge(`n${box.first}`, key, { faint: true });
      }
    });
  }

  stub(op, there, inward, given, more = "") {
    const named = there.op === undefined || this.graph.tensorOf(there.op);
    const name = named ? this.graph.titleOf(there) : this.graph.linesOf(there)[0];
    const title = given || fitted(visible(`${inward ? "from" : "to"} ${name}`), 170, false) + more;
    return { stub: op, title, width: Math.ceil(textWidth(title)) + 16, height: 22 };
  }

  valueOf({ op, output }) {
    return this.graph.outputsOf(op)[output]?.port || "";
  }
}

/** Points of the arrow from a box to the next box in the row, or to the first box of the next row. */
function between(from, to) {
  if (to.x > from.x && Math.abs(from.y + from.height / 2 - to.y - to.height / 2) < 4) {
    const y = from.y + from.height / 2;
    return [{ x: from.x + from.width, y }, { x: to.x, y }];
  }
  const middle = (from.y + from.height + to.y) / 2;
  const [start, end] = [from.x + from.width / 2, to.x + to.width / 2];
  return [
    { x: start, y: from.y + from.height }, { x: start, y: middle }, { x: end, y: middle }, { x: end, y: to.y },
  ];
}
