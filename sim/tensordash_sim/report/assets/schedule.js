"use strict";
// A recorded run, cycle by cycle, without anything of how it looks.

/**
 * What happens in each cycle of a run; cycles count from 1, steps from 0 over all streams.
 *
 * A scheduler is a row of the tile or, if both sides are skipped, one of its PEs.
 */
class Schedule {
  constructor(run) {
    Object.assign(this, run);
    const { lanes, rows, columns, sparsity, options } = run.tile;
    this.cycles = run.advance.length;
    this.steps = run.streams.reduce((sum, steps) => sum + steps, 0);
    this.schedulers = rows * (sparsity === "both" ? columns : 1);
    this.multipliers = rows * columns * lanes;
    this.heads = [0];  // the oldest step in each cycle, and after the last one the number of steps
    for (const advance of run.advance) this.heads.push(this.heads.at(-1) + advance);
    this.ends = [];  // the step after each stream's last
    for (const steps of run.streams) this.ends.push((this.ends.at(-1) ?? 0) + steps);
    // In which cycle each position is taken, 0: never, and by which lane.
    this.takenIn = Array.from({ length: this.schedulers }, () => new Int32Array(this.steps * lanes));
    this.takenBy = Array.from({ length: this.schedulers }, () => new Int8Array(this.steps * lanes).fill(-1));
    this.busyLanes = new Int32Array(this.cycles + 1);
    run.taken.forEach((taken, index) => taken.forEach((option, place) => {
      if (option < 0) return;
      const scheduler = Math.floor(place / lanes), lane = place % lanes;
      const position = this.position(index + 1, lane, options[option]);
      this.takenIn[scheduler][position] = index + 1;
      this.takenBy[scheduler][position] = lane;
      this.busyLanes[index + 1] += sparsity === "both" ? 1 : columns;
    }));
    this.levelOf = new Int8Array(lanes);
    run.tile.levels.forEach((members, level) => members.forEach((lane) => { this.levelOf[lane] = level; }));
  }

  /** Number, step * lanes + lane, of the position that an option leads a lane to. */
  position(cycle, lane, [step, offset]) {
    const { lanes } = this.tile;
    return (this.heads[cycle - 1] + step) * lanes + (lane + offset + lanes) % lanes;
  }

  scheduler(row, column) {
    return this.tile.sparsity === "both" ? row * this.tile.columns + column : row;
  }

  /** The step after the last one of the stream under way in a cycle. */
  end(cycle) {
    return this.ends.find((end) => end > this.heads[cycle - 1]);
  }

  /** Steps in the window: their numbers, the oldest first. */
  window(cycle) {
    return Array.from({ length: this.present[cycle - 1] }, (_, step) => this.heads[cycle - 1] + step);
  }

  /** What a position is in a cycle: "taken" now, "used" before, "waiting", "zero", or of the "next" stream. */
  state(cycle, scheduler, step, lane) {
    const taken = this.takenIn[scheduler][step * this.tile.lanes + lane];
    if (step >= this.end(cycle)) return taken ? "next waiting" : "next zero";
    if (!taken) return "zero";
    if (taken === cycle) return "taken";
    return taken < cycle ? "used" : "waiting";
  }

  /** What a lane takes: null, or its option, and the position's step, lane and values. */
  work(cycle, row, column, lane) {
    const { lanes, options } = this.tile;
    const index = this.taken[cycle - 1][this.scheduler(row, column) * lanes + lane];
    if (index < 0) return null;
    const position = this.position(cycle, lane, options[index]);
    return {
      index, option: options[index], step: Math.floor(position / lanes), lane: position % lanes,
      b: this.b[row][position], a: this.a[column][position],
    };
  }

  /** AS of a row in a cycle. */
  rowAdvance(cycle, row) {
    return this.row_advance[cycle - 1][row];
  }

  /** Steps that a row could have gone further than the tile did, in one cycle. */
  wait(cycle, row) {
    return this.rowAdvance(cycle, row) - this.advance[cycle - 1];
  }

  /** The same, over all cycles so far. */
  waited(cycle, row) {
    let sum = 0;
    for (let one = 1; one <= cycle; one += 1) sum += this.wait(one, row);
    return sum;
  }

  /** Dense steps over cycles, up to the end of a cycle. */
  speedup(cycle) {
    return this.heads[cycle] / cycle;
  }
}

/** An option in words. */
function optionName([step, offset]) {
  if (step === 0) return "dense";
  return offset === 0 ? `lookahead ${step}` : `lookaside ${step}, ${offset > 0 ? "+" : "−"}${Math.abs(offset)}`;
}
