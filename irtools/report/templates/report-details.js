// Details panel: the current box or op.

const FIRST_READERS = 12;

class Details {
  /** `go(op)` shows another op. */
  constructor(panel, go) {
    this.panel = panel;
    this.go = go;
  }

  show(graph, node, op) {
    this.graph = graph;
    const parts = op === undefined ? this.group(node) : this.op(node, op);
    this.panel.replaceChildren(...parts.filter(Boolean));
    this.panel.scrollTop = 0;
  }

  group(node) {
    const types = new Map();
    let count = 0;
    const add = (type, number) => {
      count += number;
      types.set(type, (types.get(type) || 0) + number);
    };
    for (let number = node.first; number < node.end; number++) {
      const inner = this.graph.nodes[number];
      if (inner && this.graph.pending(inner)) inner.types.forEach((own) => add(...own));
      else if (inner?.op !== undefined) add(this.graph.type(inner.op), 1);
    }
    const rows = [...types].sort((a, b) => b[1] - a[1]).map(([type, number]) => [type, number.toLocaleString("en-US")]);
    return [
      element("h3", {}, visible(this.graph.titleOf(node))),
      this.trail(node),
      ...node.lines.map((line) => element("p", {}, visible(line))),
      this.findings(node.findings),
      element("h4", {}, counted(count, "op")),
      this.table(rows),
    ];
  }

  op(node, op) {
    const graph = this.graph;
    const name = graph.names[op];
    const tap = graph.taps.get(op);
    const body = graph.bodyOf(op);
    const own = graph.findings.filter((finding) => finding.op === op);
    return [
      element("h3", {}, visible(graph.type(op))),
      element("p", { class: "name whole" }, visible(name)),
      element("p", { class: "note" }, `${graph.opset(op)}, id ${graph.ids[op]}, line ${graph.lines[op]}`,
        body ? `, in ${body[1]} of ${visible(graph.names[body[0]])}` : "", graph.constant[op] ? ", constant" : ""),
      this.trail(node),
      element("p", { class: "buttons" }, element("button", { type: "button", onclick: () => this.copy(name) }, "Copy name"),
        element("button", { type: "button", onclick: () => this.copy(location.href) }, "Copy link")),
      tap ? element("p", { class: "tapped" }, `Hidden state of layer ${tap.layer}, output ${tap.output}`) : null,
      this.findings(own.length ? own : node.op === op ? node.findings : []),
      ...this.section("Attributes", this.table(graph.pairsOf(op, "attributes").map((pair) => pair.map(visible)))),
      ...this.section("Inputs", this.inputs(op)),
      ...this.section("Outputs", this.outputs(op)),
      ...this.section("rt_info", this.table(graph.pairsOf(op, "rt_info").map((pair) => pair.map(visible)))),
    ];
  }

  section(title, content) {
    return content ? [element("h4", {}, title), content] : [];
  }

  /** Titles of the boxes around a box, outermost first. */
  trail(node) {
    const names = [];
    for (let outer = node.parent; outer?.parent; outer = outer.parent) names.unshift(visible(this.graph.titleOf(outer)));
    return names.length ? element("p", { class: "trail" }, names.join(" \u203a ")) : null;
  }

  table(rows) {
    if (!rows.length) return null;
    const cells = ([key, value]) => element("tr", {}, element("th", { scope: "row" }, key), element("td", { class: "name" }, value));
    return element("table", {}, element("tbody", {}, ...rows.map(cells)));
  }

  findings(found) {
    if (!found.length) return null;
    const item = (finding) => element("li", { class: finding.severity },
      element("span", { class: "severity" }, finding.severity), " ",
      element("a", { href: `#finding-${this.model}-${finding.number}`, class: "code" }, finding.code), " ",
      ...prose(finding.message));
    return element("ul", { class: "pinned" }, ...found.slice(0, 20).map(item),
      found.length > 20 ? element("li", {}, `and ${found.length - 20} more`) : null);
  }

  link(op) {
    const name = this.graph.names[op];
    return element("button", { type: "button", class: "link name", title: visible(name), onclick: () => this.go(op) },
      element("b", {}, visible(this.graph.type(op))), ` ${visible(name)}`);
  }

  inputs(op) {
    const sources = this.graph.inputsOf(op);
    if (!sources.length) return null;
    return element("ol", { class: "ports", start: "0" }, ...sources.map((input, number) => {
      const outputs = input.op < 0 ? [] : this.graph.outputsOf(input.op);
      const value = this.graph.inputPort(op, number);
      const which = outputs.length > 1 ? `output ${input.output} of ` : "";
      return element("li", {}, element("code", {}, visible(value)), element("div", {}, which, input.op < 0 ? "nothing" : this.link(input.op)));
    }));
  }

  outputs(op) {
    const ports = this.graph.outputsOf(op);
    if (!ports.length) return null;
    const readers = this.graph.consumersOf(op);
    return element("ol", { class: "ports", start: "0" }, ...ports.map((output, number) => {
      const own = readers.filter((reader) => reader.output === number);
      return element("li", {}, element("code", {}, visible(output.port)),
        output.names ? element("div", { class: "name" }, `tensor ${visible(output.names)}`) : null,
        element("div", { class: "note" }, own.length ? `read by ${own.length}` : "read by none"), this.readers(own));
    }));
  }

  readers(own) {
    const list = element("ul", {});
    const item = (reader) => element("li", {}, this.link(reader.op), ` input ${reader.input}`);
    list.append(...own.slice(0, FIRST_READERS).map(item));
    const rest = own.slice(FIRST_READERS);
    if (rest.length) {
      const more = element("button", { type: "button", onclick: () => {
        more.parentElement.replaceWith(...rest.slice(0, 500).map(item));
      } }, `${rest.length} more`);
      list.append(element("li", {}, more));
    }
    return list;
  }

  /** Copy to the clipboard, or show in the status line: browsers may deny the clipboard to a page from a file. */
  async copy(text) {
    const status = document.getElementById("status");
    try {
      await navigator.clipboard.writeText(text);
      status.textContent = "Copied";
    } catch {
      status.textContent = visible(text);
    }
  }
}
