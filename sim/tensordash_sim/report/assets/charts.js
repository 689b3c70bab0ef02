"use strict";
// The figures, drawn by plotly.js from the page's data. A series has one colour: what is ours is a line with dots, or a
// filled bar; the paper's are open diamonds, or hatched bars. Its one legend entry shows and hides both.
(() => {
  const figures = JSON.parse(document.getElementById("report-data").textContent).figures;
  const charts = document.querySelectorAll(".chart");
  if (!charts.length || typeof Plotly === "undefined") return;

  const colors = () => Array.from({ length: 8 }, (_, index) => themeColor(`series-${index}`));
  const unique = (values) => [...new Set(values)];
  const hover = (name) => `<b>%{y:.4~g}</b> at %{x}<br>${name}<extra></extra>`;
  // Beyond the colours there are, the next round of series has other marks.
  const rounds = [["circle", "solid"], ["square", "dash"], ["triangle-up", "dashdot"]];
  // Names are the authors' texts; plotly would read them as markup.
  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");

  function layout(x, y, more) {
    const axis = {
      gridcolor: themeColor("grid"), linecolor: themeColor("line"), zerolinecolor: themeColor("line"),
      automargin: true, ticks: "outside", tickcolor: themeColor("line"), ticklen: 4,
    };
    return {
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: themeColor("text") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 56, r: 44, t: 8, b: 48 }, hovermode: "closest", hoverdistance: 40, dragmode: "zoom",
      hoverlabel: { bgcolor: themeColor("surface"), bordercolor: themeColor("line"), font: { color: themeColor("text") } },
      modebar: { color: themeColor("muted"), activecolor: themeColor("accent"), bgcolor: "rgba(0,0,0,0)", orientation: "v" },
      legend: { orientation: "h", y: 1.02, x: 0, xanchor: "left", yanchor: "bottom" },
      xaxis: { ...axis, title: { text: plain(x), standoff: 8 } },
      yaxis: { ...axis, title: { text: plain(y), standoff: 8 }, rangemode: "tozero" },
      ...more,
    };
  }

  function traces(figure, metric) {
    const points = figure.points.filter((point) => point.metric === metric);
    const palette = colors();
    const names = unique(points.map((point) => point.series));
    const found = [];
    names.forEach((name, index) => {
      const color = palette[index % palette.length];
      const [symbol, dash] = rounds[Math.floor(index / palette.length) % rounds.length];
      const own = points.filter((point) => point.series === name);
      for (const side of ["ours", "paper"]) {
        const there = own.filter((point) => point[side] !== null);
        if (!there.length) continue;
        const common = {
          x: there.map((point) => point.x), y: there.map((point) => point[side]), name: plain(name || side),
          legendgroup: name, showlegend: names.length > 1 && (side === "ours" || !own.some((point) => point.ours !== null)),
          hovertemplate: hover(plain([name, side].filter(Boolean).join(", "))),
        };
        if (figure.kind === "line") {
          if (common.x.every((x) => typeof x === "number")) {
            const order = common.x.map((_, at) => at).sort((left, right) => common.x[left] - common.x[right]);
            common.x = order.map((at) => there[at].x);
            common.y = order.map((at) => there[at][side]);
          }
          found.push({
            ...common, type: "scatter", mode: there.length < own.length ? "markers" : "lines+markers",
            line: { color, width: 2, dash: side === "ours" ? dash : "dot" },
            marker: { color, size: side === "ours" ? 7 : 10, symbol: side === "ours" ? symbol : "diamond-open", line: { color, width: 1.5 } },
          });
        } else {
          const hatch = { shape: "/", fgcolor: color, bgcolor: "rgba(0,0,0,0)", size: 5, solidity: 0.25 };
          found.push({
            ...common, type: "bar", x: common.x.map((x) => plain(x)),
            marker: { color, line: { color, width: 1 }, ...(side === "paper" && { pattern: hatch }) },
          });
        }
      }
    });
    // The paper's few marks lie over the lines, and its bars beside ours.
    const isPaper = (trace) => trace.marker.symbol === "diamond-open";
    return [...found.filter((trace) => !isPaper(trace)), ...found.filter(isPaper)];
  }

  function figureChart(element) {
    const figure = figures.find((one) => one.name === element.dataset.figure);
    const { metric } = element.dataset;
    const several = unique(figure.points.map((point) => point.metric)).length > 1;
    const categories = figure.points.some((point) => point.metric === metric && typeof point.x === "string");
    // Several metrics have one axis label between them; each has its name above it.
    const drawn = layout(figure.x_labels[metric], several ? "" : figure.y_label, { barmode: "group", bargap: 0.25 });
    const names = unique(figure.points.filter((point) => point.metric === metric).map((point) => point.series));
    const longest = Math.max(...names.map((name) => name.length));
    const columns = Math.max(1, Math.floor((element.clientWidth - 80) / (60 + 7.2 * longest)));
    drawn.height = 340 + (names.length > 1 ? 20 * Math.ceil(names.length / columns) : 0);
    if (figure.kind === "bar" || categories) drawn.xaxis.type = "category";
    const places = unique(figure.points.filter((point) => point.metric === metric).map((point) => String(point.x)));
    const words = Math.max(...places.map((place) => place.length));
    if (drawn.xaxis.type === "category" && element.clientWidth / places.length < 8 * words) {
      drawn.height += Math.min(200, 6 * words);  // the labels are turned
    }
    if (drawn.xaxis.type !== "category") tickWholes(drawn.xaxis, unique(figure.points.filter((point) => point.metric === metric).map((point) => point.x)));
    return [traces(figure, metric), drawn];
  }

  // An axis of whole numbers has no ticks between them, and a logarithmic one where they lie far apart: as plots.py has it.
  function tickWholes(axis, places) {
    if (!places.every(Number.isInteger)) return;
    const least = Math.min(...places), most = Math.max(...places);
    if (least > 0 && most >= 50 * least) axis.type = "log";
    if (places.length <= 12) Object.assign(axis, { tickmode: "array", tickvals: places, ticktext: places.map(String) });
    else Object.assign(axis, { tick0: 0, dtick: Math.ceil((most - least) / 10) });
  }

  function overviewChart() {
    const data = figures.map((figure) => {
      const points = figure.points.filter((one) => one.paper && one.ours !== null);
      return {
        type: "scatter", mode: "markers", name: plain(figure.name), showlegend: false,
        x: points.map((one) => one.ours / one.paper - 1), y: points.map(() => plain(figure.name)),
        text: points.map((one) => plain(`${one.metric}, ${one.series}, ${one.x}: ${one.ours} (paper ${one.paper})`)),
        hovertemplate: "%{text}<br>%{x:+.1%}<extra></extra>",
        marker: { size: 9, color: themeColor("accent"), opacity: 0.6 },
      };
    }).filter((one) => one.x.length);
    const drawn = layout("ours relative to the paper", "", {});
    drawn.xaxis.tickformat = "+.0%";
    drawn.xaxis.zerolinecolor = themeColor("muted");
    drawn.xaxis.zerolinewidth = 2;
    drawn.yaxis = { ...drawn.yaxis, title: { text: "" }, type: "category", autorange: "reversed", rangemode: "normal" };
    drawn.height = 110 + 26 * data.length;
    return [data, drawn];
  }

  // The buttons are named one by one: the library's own choice has one that sends the chart to a server.
  const config = {
    displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "",
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
  function draw() {
    for (const element of charts) {
      const [data, drawn] = element.id === "overview-chart" ? overviewChart() : figureChart(element);
      Plotly.react(element, data, drawn, config);
    }
  }
  draw();
  document.addEventListener("themechange", draw);
})();
