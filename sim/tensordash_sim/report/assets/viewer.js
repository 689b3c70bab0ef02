"use strict";
// The schedule viewer: draws a Schedule and steps through it.
(() => {
  const runs = JSON.parse(document.getElementById("report-data").textContent).runs;
  if (!runs.length) return;
  const get = (name) => document.getElementById(`viewer-${name}`);
  const viewer = document.getElementById("viewer");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const icons = { play: "M7 4v16l13-8z", pause: "M6 4h4v16H6zM14 4h4v16h-4z" };
  let run, cycle, column, panels, timer = 0;

  function drawWaits() {
    const canvas = get("waits"), { rows, depth } = run.tile;
    const scale = devicePixelRatio || 1, height = Math.max(28, rows * 9);
    canvas.style.height = `${height}px`;
    const width = canvas.clientWidth;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const brush = canvas.getContext("2d");
    brush.scale(scale, scale);
    const wide = width / run.cycles, high = height / rows;
    const [advance, wait, text] = ["accent", "wait", "text"].map(themeColor);
    for (let one = 1; one <= run.cycles; one += 1) {
      for (let row = 0; row < rows; row += 1) {
        const waits = run.wait(one, row);
        brush.fillStyle = waits ? wait : advance;
        brush.globalAlpha = (waits ? 0.25 : 0.12) + 0.7 * (waits || run.advance[one - 1]) / depth;
        brush.fillRect((one - 1) * wide, row * high, Math.max(wide - (wide > 4), 0.7), high - 1);
      }
    }
    brush.globalAlpha = 1;
    brush.strokeStyle = text;
    brush.lineWidth = 2;
    brush.strokeRect((cycle - 1) * wide, 1, Math.max(wide, 3), height - 2);
  }

  function drawTable() {
    const { lanes, rows } = run.tile;
    const cells = (name, texts) => texts.map((text) => Object.assign(document.createElement(name), { textContent: text }));
    const line = (parts) => { const row = document.createElement("tr"); row.append(...parts); return row; };
    const names = ["Row", ...Array.from({ length: lanes }, (_, lane) => `Lane ${lane}`), "AS", "Waits", "Waited so far"];
    get("table").tHead.replaceChildren(line(cells("th", names)));
    get("table").tBodies[0].replaceChildren(...Array.from({ length: rows }, (_, row) => line(cells("td", [
      row,
      ...Array.from({ length: lanes }, (_, lane) => {
        const work = run.work(cycle, row, column, lane);
        return work ? `${work.b} × ${work.a} of step ${work.step}, lane ${work.lane} (${optionName(work.option)})` : "idle";
      }),
      run.rowAdvance(cycle, row), run.wait(cycle, row), run.waited(cycle, row),
    ]))));
  }

  function show(next, animated = false) {
    cycle = Math.min(Math.max(next, 1), run.cycles);
    const done = run.heads[cycle];
    const texts = {
      cycle, cycles: run.cycles, steps: done, total: run.steps, speedup: `${run.speedup(cycle).toFixed(2)}×`,
      advance: run.advance[cycle - 1], busy: run.busyLanes[cycle], multipliers: run.multipliers,
      simulated: run.simulated_cycles, "sparse-steps": done, "dense-steps": cycle,
    };
    for (const [name, text] of Object.entries(texts)) get(name).textContent = text;
    get("sparse").style.width = `${100 * done / run.steps}%`;
    get("dense").style.width = `${100 * cycle / run.steps}%`;
    get("race").setAttribute("aria-label", `After ${cycle} cycles TensorDash has done ${done} of ${run.steps} steps, the dense tile ${cycle}.`);
    get("slider").value = cycle;
    get("slider").setAttribute("aria-valuetext", `cycle ${cycle} of ${run.cycles}`);
    // Not `disabled`: that would take the focus away, and the keys with it.
    for (const name of ["first", "back"]) get(name).ariaDisabled = cycle === 1;
    for (const name of ["next", "last"]) get(name).ariaDisabled = cycle === run.cycles;
    if (!timer) get("status").textContent = `Cycle ${cycle} of ${run.cycles}, ${done} steps done, AS ${texts.advance}.`;
    const shown = { cycle, column, lane: get("lane").value, animated: animated && !still.matches };
    for (const panel of panels) panel.draw(shown);
    drawWaits();
    drawTable();
  }

  function pause() {
    clearInterval(timer);
    timer = 0;
    get("play").querySelector("path").setAttribute("d", icons.play);
    get("play").setAttribute("aria-label", "Play");
  }

  function play() {
    if (cycle === run.cycles) show(1);
    const rate = Number(get("speed").value);
    timer = setInterval(() => {
      show(cycle + 1, rate <= 3);
      if (cycle === run.cycles) pause();
    }, 1000 / rate);
    get("play").querySelector("path").setAttribute("d", icons.pause);
    get("play").setAttribute("aria-label", "Pause");
  }

  function choose(index) {
    pause();
    run = new Schedule(runs[index]);
    column = 0;
    const { lanes, columns, rows, formats, sparsity } = run.tile;
    get("column").replaceChildren(...Array.from({ length: columns }, (_, each) => new Option(each, each)));
    get("lane").replaceChildren(new Option("none", ""), ...Array.from({ length: lanes }, (_, each) => new Option(each, each)));
    get("slider").max = run.cycles;
    const streams = run.streams.length, skipped = { rows: "zeros of the row side", both: "zeros of either side", none: "nothing" }[sparsity];
    get("about").textContent = `${run.about} ${streams} stream${streams === 1 ? "" : "s"}, ${run.steps} dense steps; ` +
      `${rows} × ${columns} PEs of ${lanes} lanes, ${formats[0] === formats[1] ? formats[0] : formats.join(" × ")}, skips ${skipped}.`;
    panels = Array.from({ length: rows }, (_, row) => new Panel(run, row));
    get("windows").replaceChildren(...panels.map((panel) => panel.element));
    show(1);
  }

  const go = (next) => { pause(); show(next, true); };
  const moves = { first: () => go(1), back: () => go(cycle - 1), next: () => go(cycle + 1), last: () => go(run.cycles) };
  for (const [name, move] of Object.entries(moves)) get(name).addEventListener("click", move);
  get("play").addEventListener("click", () => (timer ? pause() : play()));
  get("slider").addEventListener("input", () => { pause(); show(Number(get("slider").value)); });
  get("speed").addEventListener("change", () => { if (timer) { pause(); play(); } });
  get("run").addEventListener("change", () => choose(Number(get("run").value)));
  get("column").addEventListener("change", () => { column = Number(get("column").value); show(cycle); });
  get("lane").addEventListener("change", () => show(cycle));
  get("waits").addEventListener("click", (event) => {
    go(1 + Math.floor(event.offsetX / get("waits").clientWidth * run.cycles));
  });
  const inSight = () => {
    const { top, bottom } = get("windows").getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  };
  // The arrows need no click: nothing else on the page takes them. Other keys scroll, unless the viewer has the focus.
  document.addEventListener("keydown", (event) => {
    const keys = { ArrowLeft: moves.back, ArrowRight: moves.next, Home: moves.first, End: moves.last };
    const inside = viewer.contains(event.target);
    if (event.target.matches("select, input") || event.altKey || event.ctrlKey || event.metaKey) return;
    if (!inside && !(event.target === document.body && event.key.startsWith("Arrow") && inSight())) return;
    if (event.key === " " && !event.target.matches("button, summary")) get("play").click();
    else if (keys[event.key]) keys[event.key]();
    else return;
    event.preventDefault();
  });
  new ResizeObserver(() => drawWaits()).observe(get("waits"));
  document.addEventListener("themechange", () => drawWaits());
  choose(0);
  // Where nothing else is on the page, all keys are the viewer's.
  if (!document.querySelector("section:not(#schedule)")) viewer.focus({ preventScroll: true });
})();
