// Graph of one part: ops in columns, and the tree of boxes that shows them.

const COLUMNS = ["ids", "names", "lines", "forms", "sources", "constant"];

/** A number and a noun: `1 op`, `1,024 ops`. */
function counted(number, noun) {
  return `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : noun.endsWith("x") ? "es" : "s"}`;
}

/** Shorten a name at its beginning: the end of a name is more specific. */
function shortened(name, length) {
  return name.length <= length ? name : `\u2026${name.slice(1 - length)}`;
}

class Graph {
  /** `piece(name)` decodes a piece of the part that is not read at once: the inside of a box, or the index. */
  constructor(raw, piece) {
    this.piece = piece;
    this.count = raw.ops.count ?? raw.ops.names.length;
    this.bodies = raw.ops.bodies;
    this.twins = raw.twins && new Set(raw.twins);
    this.spread = new Map((raw.spread || []).map(([op, ...chunks]) => [op, chunks]));
    for (const name of COLUMNS) this[name] = new Array(this.count);
    for (const name of ["picks", "offsets", "tensors"]) this[name] = new Map();
    Object.assign(this, { table: [], readers: [], leaf: new Array(this.count), nodes: [], boxes: [] });
    this.absorb(raw.ops);
    this.taps = new Map(raw.taps.map(([op, layer, output]) => [op, { layer, output }]));
    this.findings = raw.findings.map(([op, severity, code, message, number]) => ({ op, severity, code, message, number }));
    this.next = 0;
    this.root = this.node({ t: "", c: raw.outline }, null, 0);
    this.root.open = true;
    for (const child of this.root.children) if (child.flow) child.open = true;
    for (const finding of this.findings) this.pin(finding, null);
  }

  /** Add the columns of some ops and their forms; positions, lines and sources are differences. */
  absorb(part) {
    for (const [number, form] of part.table) {
      const [type, opset, attributes, rt_info, inputs, outputs, tensors, count = inputs.length] = form;
      this.table[number] = {
        type, opset, attributes, rt_info, inputs, outputs, tensors, count, offset: attributes.includes(null), named: tensors.includes(null),
      };
    }
    const picks = new Map(part.picks.map(([row, ...outputs]) => [row, outputs]));
    let [op, line, source, offset, tensor] = [0, 0, 0, 0, 0];
    for (let row = 0; row < part.names.length; row++) {
      op += part.at[row];
      line += part.lines[row];
      const form = this.table[part.forms[row]];
      this.names[op] = part.names[row];
      this.ids[op] = part.ids ? part.ids[row] : op;
      this.lines[op] = line;
      this.forms[op] = form;
      this.constant[op] = part.constant[row] === "1";
      if (form.offset) this.offsets.set(op, part.offsets[offset++]);
      if (form.named) this.tensors.set(op, part.tensors[tensor++]);
      if (picks.has(row)) this.picks.set(op, picks.get(row));
      const own = this.sources[op] = new Array(form.count);
      for (let input = 0; input < form.count; input++) {
        own[input] = op - part.sources[source++];
        if (own[input] >= 0) (this.readers[own[input]] ||= []).push({ op, input, output: picks.get(row)?.[input] ?? 0 });
      }
    }
  }

  /** Create a box and the boxes in it, which have the numbers `first` to `end - 1`, also those read later. */
  node(raw, parent, depth) {
    if (typeof raw === "number") raw = { o: raw };
    const node = {
      parent, depth, first: this.next, end: 0, title: raw.t || "", kind: raw.k || "op", lines: raw.l || [],
      op: raw.o, flow: Boolean(raw.f), layer: raw.n, open: false, children: [], findings: [],
      chunk: raw.z, border: raw.b || [], types: raw.y || [], inside: Boolean(raw.c?.length || raw.m),
    };
    this.nodes[node.first] = node;
    this.next += 1;
    if (node.op !== undefined) this.leaf[node.op] = node;
    for (const op of node.border) this.leaf[op] = node;
    if (node.chunk !== undefined) this.boxes[node.chunk] = node;
    node.children = (raw.c || []).map((child) => this.node(child, node, depth + 1));
    this.next += raw.m || 0;
    node.end = this.next;
    return node;
  }

  /** True if the inside of a box is not read yet. */
  pending(node) {
    return node.chunk !== undefined;
  }

  /** Read the inside of a box. */
  async open(node) {
    node.reading ||= this.piece(node.chunk).then((raw) => {
      this.absorb(raw.ops);
      this.next = node.first + 1;
      node.children = raw.c.map((child) => this.node(child, node, node.depth + 1));
      node.chunk = undefined;
      for (const finding of node.findings) this.pin(finding, node);
    });
    await node.reading;
  }

  /** Add a finding to the boxes around its op, inside a box that was opened, or everywhere. */
  pin(finding, within) {
    for (let node = this.holder(finding.op); node && node !== within; node = node.parent) node.findings.push(finding);
  }

  /** Names, types, ids and boxes of all ops, for the search. */
  async everything() {
    if (!this.twins) return this;
    this.index ||= this.piece("index").then((raw) => ({
      names: raw.names, ids: raw.ids, type: (op) => raw.words[raw.types[op]], homes: raw.homes, titles: raw.titles,
    }));
    return this.index;
  }

  /** Box with a number, which may be inside a box that is not read yet. */
  async box(number) {
    if (!this.nodes[number]) await this.open(this.boxes.find((node) => this.pending(node) && node.first < number && number < node.end));
    return this.nodes[number];
  }

  /** Read the box of an op, and of the readers of a constant, if they are not read yet. */
  async reach(op) {
    const chunks = (this.spread.get(op) || []).map((chunk) => this.boxes[chunk]);
    await Promise.all(chunks.filter((node) => this.pending(node)).map((node) => this.open(node)));
    const holder = this.leaf[op];
    if (holder) {
      if (this.pending(holder)) await this.open(holder);
    } else if (this.twins && this.names[op] === undefined) {
      const { homes } = await this.everything();
      if (homes[op] >= 0 && this.pending(this.boxes[homes[op]])) await this.open(this.boxes[homes[op]]);
    }
  }

  within(node, outer) {
    return outer.first <= node.first && node.first < outer.end;
  }

  type(op) {
    return this.forms[op]?.type;
  }

  opset(op) {
    return this.forms[op].opset;
  }

  /** Attributes or rt_info of an op as pairs. */
  pairsOf(op, column) {
    const flat = this.forms[op][column];
    return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1] ?? this.offsets.get(op)]);
  }

  /** Sources of the inputs of an op: producer (-1: none) and output index. */
  inputsOf(op) {
    const picks = this.picks.get(op);
    return this.sources[op].map((source, i) => ({ op: source, output: picks?.[i] ?? 0 }));
  }

  /** Type and shape of an input as the op declares them, with the letters of the value that it reads. */
  inputPort(op, number) {
    const { op: source, output } = this.inputsOf(op)[number];
    const read = (this.forms[source] && this.outputsOf(source)[output]?.port) || "";
    const declared = this.forms[op].inputs[number] || read;
    const [type, shape] = declared.split(" ");
    const [dims, letters] = [shape, read.split(" ")[1]].map((text) => (text || "").slice(1, -1).split(","));
    if (!declared || dims.length !== letters.length) return declared;
    return `${type} [${dims.map((dim, place) => (dim === "?" && /^[A-Z]/.test(letters[place]) ? letters[place] : dim))}]`;
  }

  outputsOf(op) {
    const { outputs, tensors } = this.forms[op];
    return outputs.map((port, i) => ({ port, names: (tensors.length ? tensors[i] : "") ?? this.tensors.get(op) }));
  }

  /** Consumers of an op: consumer, its input index, and the output index. */
  consumersOf(op) {
    return this.readers[op] || [];
  }

  /** Box that shows an op: its own box or, for a constant, the box of the first op that uses it. */
  holder(op) {
    const seen = new Set();
    for (const queue = [op]; queue.length;) {
      const next = queue.shift();
      if (this.leaf[next]) return this.leaf[next];
      if (seen.has(next)) continue;
      seen.add(next);
      queue.push(...this.consumersOf(next).map((reader) => reader.op));
    }
    return null;
  }

  /** Body that contains an op, if the op is not at the top level. */
  bodyOf(op) {
    return this.bodies.find(([, , start, stop]) => start <= op && op < stop);
  }

  titleOf(node) {
    return node.title || (node.op === undefined ? "" : this.tensorOf(node.op) || this.type(node.op));
  }

  /** First tensor name of a model input or output; empty for other ops. */
  tensorOf(op) {
    const type = this.type(op);
    if (type === "Parameter") return (this.outputsOf(op)[0]?.names || "").split(", ", 1)[0];
    const [input] = type === "Result" ? this.inputsOf(op) : [];
    if (!input || input.op < 0) return "";
    return (this.outputsOf(input.op)[input.output]?.names || "").split(", ", 1)[0];
  }

  /** Accessible name of a box. */
  label(node) {
    const name = node.op === undefined ? node.lines.join(", ") : this.names[node.op];
    const pinned = node.findings.length ? `, ${counted(node.findings.length, "finding")}` : "";
    return visible(`${this.titleOf(node)}, ${name}${pinned}`);
  }

  /** Text lines below the title of a closed box. */
  linesOf(node) {
    if (node.op === undefined) return node.lines;
    const name = this.names[node.op];
    const outputs = this.outputsOf(node.op);
    const value = outputs.length > 1 ? counted(outputs.length, "output") : outputs.length ? outputs[0].port : "";
    if (node.lines.length) return [...node.lines, shortened(name, 34)];
    const port = this.type(node.op) === "Result" ? this.inputsOf(node.op).length && this.inputPort(node.op, 0) : value;
    return [this.tensorOf(node.op) ? this.type(node.op) : shortened(name, 34), port].filter(Boolean);
  }

  /** Position of an op by friendly name (top-level ops first), or by layer id when no name fits. */
  async find(name, id) {
    const { names, ids } = await this.everything();
    const named = [];
    for (let op = 0; op < this.count; op++) if (names[op] === name) named.push(op);
    if (named.length) return named.find((op) => String(ids[op]) === id) ?? named[0];
    const numbered = /^\d+$/.test(name) ? ids.indexOf(Number(name)) : -1;
    return numbered >= 0 ? numbered : null;
  }

  unique(op) {
    if (this.twins) return !this.twins.has(op);
    return this.names.indexOf(this.names[op]) === this.names.lastIndexOf(this.names[op]);
  }

  /** Boxes with every word in their title, and ops that contain every word in their name, type or id. */
  async search(text, limit) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return { found: [], total: 0 };
    const all = await this.everything();
    all.haystack ||= all.names.map((name, op) => `${name}\n${all.type(op)}\n${all.ids[op]}`.toLowerCase());
    const titled = (title) => words.every((word) => ` ${title.toLowerCase()} `.includes(` ${word} `));
    const boxes = this.nodes.filter((node) => node.title && node.op === undefined).map((node) => [node.first, node.title, node.lines[0] || ""]);
    if (this.twins) boxes.push(...all.titles.filter(([box]) => !this.nodes[box]));
    const found = boxes.filter(([, title]) => titled(title)).map(([box, type, name]) => ({ box, type, name, rank: -1 }));
    let total = found.length;
    for (let op = 0; op < this.count; op++) {
      if (!words.every((word) => all.haystack[op].includes(word)) || ++total > 20 * limit) continue;
      const name = all.names[op];
      const rank = name.toLowerCase() === words[0] ? 0 : this.leaf[op] ? 1 : 2;
      found.push({ op, type: all.type(op), name, rank });
    }
    found.sort((a, b) => a.rank - b.rank || (a.box ?? a.op) - (b.box ?? b.op));
    return { found: found.slice(0, limit), total };
  }

  /** Values that pass between the boxes directly inside an open box, and across its border. */
  wiring(frame) {
    frame.wires ||= this.wire(frame);
    return frame.wires;
  }

  wire(frame) {
    const edges = new Map();
    const crossing = new Map();
    const child = (node) => {
      while (node.parent !== frame) node = node.parent;
      return node;
    };
    const outside = (node) => {
      while (!this.within(frame, node.parent)) node = node.parent;
      return node;
    };
    const cross = (inward, here, op) => {
      const there = outside(this.leaf[op]);
      const key = `${inward}${there.first}`;
      if (!crossing.has(key)) crossing.set(key, { inward, there, op, ends: new Set() });
      crossing.get(key).ends.add(here);
    };
    for (let number = frame.first + 1; number < frame.end; number++) {
      const node = this.nodes[number];
      if (!node) continue;
      const head = child(node);
      for (const op of this.pending(node) ? node.border : node.op === undefined ? [] : [node.op]) {
        for (const input of this.inputsOf(op)) {
          const source = this.leaf[input.op];
          if (!source) continue;
          if (!this.within(source, frame) || source === frame) {
            cross(true, head, input.op);
            continue;
          }
          const tail = child(source);
          if (tail !== head) this.join(edges, tail, head, input);
        }
        for (const reader of this.consumersOf(op)) {
          const target = this.leaf[reader.op];
          if (target && !this.within(target, frame)) cross(false, head, reader.op);
        }
      }
    }
    return { edges: [...edges.values()], crossing: [...crossing.values()] };
  }

  /** Add a value to the arrow between two boxes; with values in both directions, it points where most of them go. */
  join(edges, tail, head, input) {
    const edge = edges.get(`${tail.first}>${head.first}`) || edges.get(`${head.first}>${tail.first}`);
    if (!edge) {
      edges.set(`${tail.first}>${head.first}`, { tail, head, op: input.op, output: input.output, there: 1, back: 0 });
    } else if (edge.tail === tail) edge.there += 1;
    else edge.back += 1;
    if (edge && edge.back > edge.there) {
      Object.assign(edge, { tail, head, op: input.op, output: input.output, there: edge.back, back: edge.there });
    }
  }
}
