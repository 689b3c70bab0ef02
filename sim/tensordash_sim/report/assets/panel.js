"use strict";
// One row of the tile: its window, its lanes, and the lines between them.

/** An SVG element. */
const svg = (name, attributes = {}, text = null) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
};

/** A value in five characters, with as many digits as fit. */
function short(value) {
  for (const digits of [3, 2, 1]) {
    const plain = String(Number(value.toPrecision(digits)));
    for (const text of [plain, value.toExponential(digits - 1)]) {
      const shown = text.replace(/^(-?)0\./, "$1.").replace("e+", "e");
      if (shown.length <= 5) return shown.replaceAll("-", "−");
    }
  }
  return "…";
}

/** One row's window and its lanes: the oldest step lies next to the lanes, later ones above it. */
class Panel {
  constructor(run, row) {
    Object.assign(this, { run, row });
    const { lanes, depth } = run.tile;
    // Right of each cell there is room for one line down for each step.
    this.room = Math.max(3 * depth, 10);
    this.cell = { width: (lanes > 8 ? 26 : 41) + this.room, height: 30 };
    this.inner = this.cell.width - this.room;
    this.values = lanes <= 8;
    this.left = 36;
    this.top = 6;
    this.lanesAt = this.top + depth * this.cell.height + 34;
    const width = this.left + lanes * this.cell.width + 12, height = this.lanesAt + 76;
    this.element = document.createElement("article");
    this.element.className = "panel";
    this.head = document.createElement("h2");
    this.drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
    this.layers = ["steps", "leaving", "links", "lanes", "reach"].map((name) => svg("g", { class: name }));
    [this.stepsLayer, this.leaving, this.links, this.lanesLayer, this.reach] = this.layers;
    this.drawing.append(...this.layers);
    const scroller = document.createElement("div");
    scroller.className = "scroll";
    scroller.append(this.drawing);
    this.element.append(this.head, scroller);
    this.drawn = new Map();
  }

  middle(lane) { return this.x(lane) + this.inner / 2; }
  x(lane) { return this.left + lane * this.cell.width; }
  y(index) { return this.top + (this.run.tile.depth - 1 - index) * this.cell.height; }

  /**
   * Show a cycle.
   *
   * `column` selects the PE whose A values are shown, `lane` the one whose reach is, "" for none.
   */
  draw({ cycle, column, lane, animated }) {
    Object.assign(this, { cycle, column, lane, scheduler: this.run.scheduler(this.row, column) });
    this.drawing.classList.toggle("still", !animated);
    this.drawHead();
    this.drawSteps();
    this.drawLeaving();
    this.drawLanes();
    this.drawReach(this.lane);
  }

  drawHead() {
    const advance = this.run.rowAdvance(this.cycle, this.row), wait = this.run.wait(this.cycle, this.row);
    const waited = this.run.waited(this.cycle, this.row);
    this.head.replaceChildren(`Row ${this.row}`);
    const badge = (text, name, title) => {
      const span = document.createElement("span");
      Object.assign(span, { textContent: text, className: `badge ${name}`, title });
      this.head.append(" ", span);
    };
    badge(`AS ${advance}`, "advance", "Leading steps that this row is done with");
    if (wait) badge(`waits ${wait}`, "wait", "It could have gone further; the tile goes by the slowest row");
    badge(`waited ${waited}`, "sum", "Steps that this row waited, up to this cycle");
    this.drawing.setAttribute("aria-label", `Row ${this.row}: AS ${advance}, waits ${wait}. The table has its lanes.`);
  }

  drawSteps() {
    const window = this.run.window(this.cycle), head = this.run.heads[this.cycle - 1];
    for (const [step, group] of this.drawn) {
      if (window.includes(step)) continue;
      group.remove();
      this.drawn.delete(step);
    }
    for (const step of window) {
      let group = this.drawn.get(step);
      if (!group) {
        group = this.makeStep(step);
        group.style.transform = `translate(0, ${this.y(this.run.tile.depth)}px)`;
        this.stepsLayer.append(group);
        this.drawn.set(step, group);
        group.getBoundingClientRect();  // where it comes from, before where it goes
      }
      group.style.transform = `translate(0, ${this.y(step - head)}px)`;
      group.querySelector(".offset").textContent = `+${step - head}`;
      for (let lane = 0; lane < this.run.tile.lanes; lane += 1) this.drawCell(group, step, lane);
    }
  }

  makeStep(step) {
    const group = svg("g", { class: "step", "data-step": step });
    const middle = this.cell.height / 2;
    group.append(
      svg("text", { class: "offset", x: this.left - 8, y: middle - 1, "text-anchor": "end" }),
      svg("text", { class: "number", x: this.left - 8, y: middle + 11, "text-anchor": "end" }, step),
    );
    for (let lane = 0; lane < this.run.tile.lanes; lane += 1) {
      const cell = svg("g", { class: "cell", "data-lane": lane });
      const { height } = this.cell;
      const value = this.run.b[this.row][step * this.run.tile.lanes + lane];
      cell.append(
        svg("rect", { x: this.x(lane), y: 2, width: this.inner, height: height - 4, rx: 4 }),
        svg("text", { x: this.middle(lane), y: middle + 4, "text-anchor": "middle" }, this.values ? short(value) : ""),
        svg("title"),
      );
      group.append(cell);
    }
    return group;
  }

  drawCell(group, step, lane) {
    const cell = group.querySelector(`[data-lane="${lane}"]`);
    const state = this.run.state(this.cycle, this.scheduler, step, lane);
    const position = step * this.run.tile.lanes + lane;
    const by = this.run.takenBy[this.scheduler][position], at = this.run.takenIn[this.scheduler][position];
    cell.setAttribute("class", `cell ${state}`);
    cell.style.setProperty("--lane", state === "taken" ? `var(--series-${by % 8})` : "");
    cell.querySelector("title").textContent =
      `step ${step}, lane ${lane}: row side ${this.run.b[this.row][position]}, ` + (at ? `taken in cycle ${at} by lane ${by}` : "skipped");
  }

  drawLeaving() {
    const advance = this.run.advance[this.cycle - 1], own = this.run.rowAdvance(this.cycle, this.row);
    const x = this.x(this.run.tile.lanes) + 4;
    const bracket = (from, to, name, text) => {
      const line = svg("rect", { class: name, x, width: 5, rx: 2.5, y: this.y(to - 1) + 3, height: (to - from) * this.cell.height - 6 });
      line.append(svg("title", {}, text));
      return line;
    };
    this.leaving.replaceChildren(bracket(0, advance, "advance", `${advance} leave: AS of the tile`));
    if (own > advance) this.leaving.append(bracket(advance, own, "wait", `${own - advance} could leave, too, but wait`));
    const end = this.run.end(this.cycle) - this.run.heads[this.cycle - 1];
    if (end < this.run.present[this.cycle - 1]) {
      const y = this.y(end - 1);
      this.leaving.append(svg("line", { class: "end", x1: this.left, x2: x, y1: y, y2: y }));
    }
  }

  drawLanes() {
    const { lanes } = this.run.tile;
    this.links.replaceChildren();
    this.lanesLayer.replaceChildren();
    for (let lane = 0; lane < lanes; lane += 1) {
      const work = this.run.work(this.cycle, this.row, this.column, lane);
      const group = svg("g", { class: work ? "lane" : "lane idle", "data-lane": lane });
      group.style.setProperty("--lane", `var(--series-${lane % 8})`);
      const x = this.middle(lane);
      const text = (value, y, name) => svg("text", { class: name, x, y: this.lanesAt + y, "text-anchor": "middle" }, value);
      group.append(svg("rect", { x: this.x(lane) - 3, y: this.lanesAt, width: this.inner + 6, height: 46, rx: 6 }));
      if (work) {
        const option = work.option.map((part) => String(part).replace("-", "−")).join(",");
        if (this.values) group.append(text(short(work.b), 14, "b"), text(`× ${short(work.a)}`, 27, "a"));
        group.append(text(this.values ? `(${option})` : option, this.values ? 40 : 28, "option"));
        group.dataset.source = `${work.step},${work.lane}`;
        group.dataset.option = work.index;
        group.append(svg("title", {}, `lane ${lane}: ${optionName(work.option)}, row side ${work.b}, column side ${work.a}`));
        const link = svg("path", { d: this.path(work, lane) });
        link.style.setProperty("--lane", `var(--series-${lane % 8})`);
        this.links.append(link);
      } else {
        group.append(text("idle", 27, "option"));
      }
      group.append(text(`${this.values ? "lane " : ""}${lane}`, 59, "name"));
      group.append(text(`${this.values ? "level " : "L"}${this.run.levelOf[lane] + 1}`, 71, "level"));
      group.addEventListener("pointerenter", () => this.drawReach(lane));
      group.addEventListener("pointerleave", () => this.drawReach(this.lane));
      this.lanesLayer.append(group);
    }
  }

  /** From a position to the lane that takes it: down beside its column, so that it crosses no value. */
  path(work, lane) {
    const step = work.step - this.run.heads[this.cycle - 1], to = this.middle(lane), floor = this.y(0) + this.cell.height;
    if (step === 0) return `M${this.middle(work.lane)},${floor - 2} V${this.lanesAt}`;
    const from = this.y(step) + this.cell.height / 2, track = this.x(work.lane) + this.inner + 3 * step - 1;
    return `M${this.x(work.lane) + this.inner},${from} Q${track},${from} ${track},${from + 5} V${floor}` +
      ` C${track},${floor + 18} ${to},${this.lanesAt - 20} ${to},${this.lanesAt}`;
  }

  /** Numbers the positions that a lane can reach by priority; none if `lane` is "". */
  drawReach(lane) {
    this.reach.replaceChildren();
    if (lane === "") return;
    this.run.tile.options.forEach(([step, offset], index) => {
      const source = (Number(lane) + offset + this.run.tile.lanes) % this.run.tile.lanes;
      const x = this.x(source) + 4, y = this.y(step) + 6;
      this.reach.append(
        svg("rect", { x: this.x(source) - 1, y: this.y(step) + 1, width: this.inner + 2, height: this.cell.height - 2, rx: 5 }),
        svg("circle", { cx: x, cy: y, r: 7 }),
        svg("text", { x, y: y + 3.5, "text-anchor": "middle" }, index + 1),
      );
    });
  }
}

