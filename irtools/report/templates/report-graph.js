// Graph of one part: ops in columns, and the tree of boxes that shows them.

/** Decode a graph that is embedded in the page. */
async function unpack(element) {
  const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

/** Escape control and format characters, which could change or reorder the text around them. */
function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** A number and a noun: `1 op`, `1,024 ops`. */
function counted(number, noun) {
  return `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : noun.endsWith("x") ? "es" : "s"}`;
}

/** Shorten a name at its beginning: the end of a name is more specific. */
function shortened(name, length) {
  return name.length <= length ? name : `\u2026${name.slice(1 - length)}`;
}

class Graph {
  constructor(raw) {
    Object.assign(this, raw.ops);
    this.count = this.names.length;
    this.leaf = new Array(this.count);
    this.taps = new Map(raw.taps.map(([op, layer, output]) => [op, { layer, output }]));
    this.findings = raw.findings.map(([op, severity, code, message, number]) => ({ op, severity, code, message, number }));
    this.nodes = [];
    this.root = this.node({ t: "", c: raw.outline }, null, 0);
    this.root.open = true;
    for (const child of this.root.children) if (child.flow) child.open = true;
    for (const finding of this.findings) {
      for (let node = this.holder(finding.op); node; node = node.parent) node.findings.push(finding);
    }
  }

  /** Create a box and the boxes in it, which have the numbers `first` to `end - 1`. */
  node(raw, parent, depth) {
    if (typeof raw === "number") raw = { o: raw };
    const node = {
      parent, depth, first: this.nodes.length, end: 0, title: raw.t || "", kind: raw.k || "op", lines: raw.l || [],
      op: raw.o, flow: Boolean(raw.f), layer: raw.n, open: false, children: [], findings: [],
    };
    this.nodes.push(node);
    if (node.op !== undefined) this.leaf[node.op] = node;
    node.children = (raw.c || []).map((child) => this.node(child, node, depth + 1));
    node.end = this.nodes.length;
    return node;
  }

  within(node, outer) {
    return outer.first <= node.first && node.first < outer.end;
  }

  type(op) {
    return this.words[this.types[op]];
  }

  /** Attributes or rt_info of an op as pairs. */
  pairsOf(op, column) {
    const flat = this.pairs[this[column][op]];
    return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]);
  }

  /** Sources of the inputs of an op: producer (-1: none), output index, declared type and shape. */
  inputsOf(op) {
    const flat = this.inputs[op];
    return Array.from({ length: flat.length / 3 }, (_, i) => ({
      op: flat[3 * i], output: flat[3 * i + 1], port: this.ports[flat[3 * i + 2]] || "",
    }));
  }

  outputsOf(op) {
    const flat = this.outputs[op];
    return Array.from({ length: flat.length / 2 }, (_, i) => ({
      port: this.ports[flat[2 * i]], names: this.words[flat[2 * i + 1]],
    }));
  }

  /** Consumers of an op: consumer, its input index, and the output index. */
  consumersOf(op) {
    if (!this.readers) {
      this.readers = Array.from({ length: this.count }, () => []);
      for (let reader = 0; reader < this.count; reader++) {
        const flat = this.inputs[reader];
        for (let i = 0; i < flat.length; i += 3) {
          if (flat[i] >= 0) this.readers[flat[i]].push({ op: reader, input: i / 3, output: flat[i + 1] });
        }
      }
    }
    return this.readers[op];
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
    const port = this.type(node.op) === "Result" ? this.inputsOf(node.op)[0]?.port : value;
    return [this.tensorOf(node.op) ? this.type(node.op) : shortened(name, 34), port].filter(Boolean);
  }

  /** Position of an op by friendly name (top-level ops first), or by layer id when no name fits. */
  find(name, id) {
    const named = [];
    for (let op = 0; op < this.count; op++) if (this.names[op] === name) named.push(op);
    if (named.length) return named.find((op) => String(this.ids[op]) === id) ?? named[0];
    const numbered = /^\d+$/.test(name) ? this.ids.indexOf(Number(name)) : -1;
    return numbered >= 0 ? numbered : null;
  }

  unique(op) {
    return this.names.indexOf(this.names[op]) === this.names.lastIndexOf(this.names[op]);
  }

  /** Ops that contain every word in their name, type or id. */
  search(text, limit) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.haystack ||= this.names.map((name, op) => `${name}\n${this.type(op)}\n${this.ids[op]}`.toLowerCase());
    const found = [];
    let total = 0;
    if (words.length) {
      for (let op = 0; op < this.count; op++) {
        if (words.every((word) => this.haystack[op].includes(word)) && ++total <= 20 * limit) found.push(op);
      }
    }
    const rank = (op) => (this.names[op].toLowerCase() === words[0] ? 0 : this.leaf[op] ? 1 : 2);
    found.sort((a, b) => rank(a) - rank(b) || a - b);
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
      const { op } = this.nodes[number];
      if (op === undefined) continue;
      const head = child(this.nodes[number]);
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
