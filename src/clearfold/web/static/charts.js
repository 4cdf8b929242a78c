// Charts by plotly.js, all drawn alike: a figure with a text alternative and its numbers in a table.

import { el } from "./dom.js";

/** Colours that are told apart also by people who see few: after Okabe and Ito, darkened where they were pale. */
export const COLOURS = ["#0072b2", "#d55e00", "#007a5a", "#a8487f", "#8a6d00", "#4b3fa8", "#5b5b5b", "#9c2a2a"];

const LAYOUT = {
  font: { family: "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", size: 13, color: "#1c2530" },
  paper_bgcolor: "#ffffff",
  plot_bgcolor: "#ffffff",
  margin: { l: 60, r: 20, t: 10, b: 50 },
  legend: { orientation: "h", traceorder: "normal", y: 1.02, yanchor: "bottom" },
};
const AXIS = { gridcolor: "#e3e8ed", zerolinecolor: "#a8b3be", linecolor: "#a8b3be", automargin: true };

/** A figure: `says` is its alternative text and caption, `numbers` a table that holds the same; `chosen` gets the name of a bar. */
export function figure(says, traces, layout, numbers = null, chosen = null) {
  const place = el("div", { class: "chart", role: "img", "aria-label": says });
  const whole = el(
    "figure",
    {},
    place,
    el("figcaption", {}, says),
    numbers && el("details", {}, el("summary", {}, "The numbers as a table"), numbers),
  );
  // plotly measures its place, so it draws after the figure is in the page
  requestAnimationFrame(() => {
    const full = { ...LAYOUT, ...layout, xaxis: { ...AXIS, ...layout.xaxis }, yaxis: { ...AXIS, ...layout.yaxis } };
    window.Plotly.newPlot(place, traces, full, { displayModeBar: false, responsive: true });
    if (chosen) place.on("plotly_click", (event) => chosen(event.points[0].y));
  });
  return whole;
}

/** Horizontal bars with intervals, the first on top. */
export function bars(says, rows, axis, chosen = null) {
  const shown = [...rows].reverse();
  const trace = {
    type: "bar",
    orientation: "h",
    y: shown.map((row) => row.name),
    x: shown.map((row) => row.value),
    marker: { color: shown.map((row) => row.colour ?? COLOURS[0]) },
    error_x: {
      type: "data",
      symmetric: false,
      array: shown.map((row) => (row.high ?? row.value) - row.value),
      arrayminus: shown.map((row) => row.value - (row.low ?? row.value)),
      color: "#1c2530",
      thickness: 1.5,
      width: 3,
    },
    hovertemplate: "%{y}: %{x:.4g}<extra></extra>",
  };
  const layout = { height: 60 + 24 * rows.length, xaxis: { title: { text: axis } }, yaxis: { tickfont: { size: 12 } } };
  return figure(says, [trace], { ...layout, margin: { ...LAYOUT.margin, l: 10 } }, null, chosen);
}

/** A curve with a band around it. */
export function curve(name, x, y, low, high, colour, shape = "linear") {
  const line = { type: "scatter", mode: "lines", name, x, y, line: { color: colour, width: 2.5, shape } };
  if (!low || !high) return [line];
  const side = { type: "scatter", mode: "lines", x, line: { width: 0, shape }, hoverinfo: "skip", showlegend: false };
  return [{ ...side, y: low }, { ...side, y: high, fill: "tonexty", fillcolor: `${colour}22` }, line];
}
