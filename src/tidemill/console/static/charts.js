// The charts of the overview: uPlot draws what /charts.json returns, a sample for every ten seconds of the last hour.
"use strict";

(() => {
  const SPAN_S_MIN = 300; // a broker that has just started would have a chart of one vertical line
  const SAMPLE_MS = 10_000;
  const HEIGHT = 168;
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const digits = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));
  const scaled = (value, base, units) => {
    let unit = 0;
    while (value >= (base === 1024 ? 1000 : base) && unit < units.length - 1) {
      value /= base;
      unit += 1;
    }
    return `${unit === 0 && Number.isInteger(value) ? value : digits(value)}${units[unit]}`;
  };
  const bytes = (value) => scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
  const records = (value) => scaled(value, 1000, ["", " k", " M"]);
  const milliseconds = (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${Number.isInteger(value) ? value : digits(value)} ms`);
  const UNITS = { bytes, records, latency: milliseconds, journal: bytes };

  const POWERS = Array.from({ length: 44 }, (_, power) => 2 ** power); // so that labels are whole KiB and MiB

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = () => ({
    stroke: colour("--muted"),
    grid: { stroke: colour("--faint"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  });

  const figures = [...document.querySelectorAll("figure[data-chart]")].map((figure) => ({
    figure,
    unit: UNITS[figure.dataset.chart],
    steps: UNITS[figure.dataset.chart] === bytes ? POWERS : undefined,
    columns: [...figure.querySelectorAll("[data-column]")],
    place: figure.querySelector(".plot"),
    plot: null,
  }));
  let samples = null;

  const time = (plot, seconds) => seconds.map((it) => new Date(it * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }));

  // A value between two unknown ones is part of no line, so it needs a point.
  const alone = (plot, series) => {
    const column = plot.data[series];
    return [...column.keys()].filter((it) => column[it] != null && column[it - 1] == null && column[it + 1] == null);
  };

  const hour = () => {
    const now = Date.now() / 1000;
    const last = samples.time_s.at(-1) ?? now;
    return [Math.min(samples.time_s[0] ?? now, last - SPAN_S_MIN), last];
  };

  function draw(chart) {
    chart.plot?.destroy();
    const series = chart.columns.map((column, index) => ({
      label: column.dataset.label,
      stroke: colour(`--series-${index + 1}`),
      width: 1.5,
      points: { size: 4, filter: alone },
    }));
    chart.plot = new uPlot(
      {
        width: chart.place.clientWidth,
        height: HEIGHT,
        legend: { show: false },
        padding: [10, 8, 0, 0],
        cursor: { y: false, points: { size: 6 } },
        scales: {
          x: { range: hour },
          y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.1 : 1] },
        },
        axes: [
          { ...axis(), values: time, space: 70, size: 32, gap: 10 },
          { ...axis(), values: (_plot, ticks) => ticks.map(chart.unit), size: 76, space: 34, incrs: chart.steps },
        ],
        series: [{}, ...series],
        hooks: { setCursor: [(plot) => label(chart, plot.cursor.idx)] },
      },
      values(chart),
      chart.place,
    );
  }

  const values = (chart) => [samples.time_s, ...chart.columns.map((column) => samples[column.dataset.column])];

  // The numbers beside the title are those under the cursor, or the newest.
  function label(chart, index) {
    for (const column of chart.columns) {
      const all = samples[column.dataset.column];
      const value = all[index ?? all.length - 1];
      column.querySelector("output").textContent = value == null ? "–" : chart.unit(value);
    }
  }

  async function refresh() {
    if (document.hidden) return;
    let response;
    try {
      response = await fetch("/charts.json");
    } catch {
      return; // console.js says that the broker does not answer
    }
    if (!response.ok) return;
    const isFirst = samples === null;
    samples = await response.json();
    for (const chart of figures) {
      if (isFirst) draw(chart);
      else chart.plot.setData(values(chart));
      label(chart, chart.plot.cursor.idx);
    }
  }

  const redraw = () => samples !== null && figures.forEach(draw);
  dark.addEventListener("change", redraw);
  new ResizeObserver(() => {
    for (const chart of figures) chart.plot?.setSize({ width: chart.place.clientWidth, height: HEIGHT });
  }).observe(document.querySelector(".charts"));
  document.addEventListener("visibilitychange", refresh);
  setInterval(refresh, SAMPLE_MS);
  refresh();
})();
