// One feature: its distribution by class, its numbers, and tissue at its extremes.

import { get } from "./api.js";
import { COLOURS, figure } from "./charts.js";
import { address, byId, complain, el, fill, labelled, number, table } from "./dom.js";

/** Below so many cases, four bins become one. */
const FEW = 400;
const sum = (values) => values.reduce((whole, value) => whole + value, 0);

async function start() {
  const place = byId("feature");
  try {
    fill(place, drawn(await get("/feature", { name: place.dataset.name })));
  } catch (error) {
    complain(error);
  }
}

function drawn(found) {
  const unit = found.unit ? ` ${found.unit}` : "";
  return [
    el(
      "section",
      { class: "card", "aria-label": "What it is" },
      facts(found, unit),
      el(
        "p",
        { class: "buttons" },
        el(
          "a",
          { class: "button quiet", href: address("/map", { by: `feature:${found.feature}` }) },
          "Colour the map by it",
        ),
      ),
    ),
    el(
      "section",
      { class: "card", "aria-labelledby": "distribution" },
      el("h2", { id: "distribution" }, "Distribution by class"),
      histogram(found, unit),
    ),
    el(
      "section",
      { class: "card", "aria-labelledby": "extremes" },
      el("h2", { id: "extremes" }, "Tissue at its extremes"),
      el("h3", {}, "Lowest"),
      examples(found.lowest, unit),
      el("h3", {}, "Highest"),
      examples(found.highest, unit),
    ),
  ];
}

function facts(found, unit) {
  const rows = [
    ["Family", found.family],
    ["Formula", found.formula && el("span", { class: "formula" }, found.formula)],
    ["Source", found.source],
    ["Median", number(found.median) + unit],
    ["5 % to 95 %", `${number(found.quantiles["0.05"])} to ${number(found.quantiles["0.95"])}${unit}`],
    ["Cases without a value", found.missing || null],
    ["AUC between the two classes", separation(found)],
    ["Difference between classes (Kruskal-Wallis p)", found.kruskal_p === null ? null : number(found.kruskal_p, 2)],
  ];
  return el(
    "dl",
    { class: "facts" },
    rows
      .filter(([, value]) => value !== null && value !== undefined)
      .flatMap(([name, value]) => [el("dt", {}, name), el("dd", { class: "long" }, value)]),
  );
}

/** How well the feature alone tells two classes apart, and which of them has more of it. */
function separation(found) {
  if (found.auc === null) return null;
  const [more] = [...found.classes].sort((one, other) => other.median - one.median);
  return `${number(Math.max(found.auc, 1 - found.auc), 3)}, higher in ${labelled(more.label)}`;
}

function histogram(found, unit) {
  const joined = sum(found.classes.map((one) => one.count)) < FEW ? 4 : 1;
  const edges = found.bins.filter((_, place) => place % joined === 0);
  const middle = edges.slice(1).map((edge, place) => (edge + edges[place]) / 2);
  const traces = found.classes.map((one, place) => ({
    type: "bar",
    name: labelled(one.label),
    x: middle,
    y: middle.map(
      (_, place) => sum(one.histogram.slice(place * joined, (place + 1) * joined)) / Math.max(1, one.count),
    ),
    width: edges[1] - edges[0],
    opacity: 0.6,
    marker: {
      color: COLOURS[place % COLOURS.length],
      pattern: { shape: ["", "/", "\\", "x"][place % 4], fillmode: "overlay", fgcolor: "#ffffff", size: 7 },
    },
  }));
  const medians = found.classes.map((one) => `${labelled(one.label)} ${number(one.median)}`).join(", ");
  const numbers = table(
    "Classes",
    [
      ["Class", (row) => labelled(row.label)],
      ["Cases", (row) => String(row.count), true],
      ["Median", (row) => number(row.median) + unit, true],
      ["25 % to 75 %", (row) => `${number(row.low)} to ${number(row.high)}`, true],
    ],
    found.classes,
  );
  return figure(
    `Share of the cases of each class by ${found.feature}${unit ? ` in${unit}` : ""}. Medians: ${medians}.`,
    traces,
    {
      barmode: "overlay",
      height: 340,
      xaxis: { title: { text: `${found.feature}${unit && ` (${found.unit})`}` } },
      yaxis: { title: { text: "share of the class" }, tickformat: ".0%" },
    },
    numbers,
  );
}

function examples(cases, unit) {
  return el(
    "ul",
    { class: "hits eight" },
    cases.map((one) =>
      el(
        "li",
        {},
        el(
          "a",
          { class: "hit", href: address("/case", { id: one.case_id }) },
          one.thumbnail
            ? el("img", { class: "thumb", src: one.thumbnail, alt: `Tissue of case ${one.case_id}`, loading: "lazy" })
            : el("span", { class: "thumb none" }, "no picture"),
          el("strong", {}, number(one.value) + unit),
          el("span", { class: "long" }, one.case_id),
          el("span", { class: "hint" }, labelled(one.label)),
        ),
      ),
    ),
  );
}

start();
