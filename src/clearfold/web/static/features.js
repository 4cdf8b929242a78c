// The features view: importance with intervals, families, stability, saliency by region, and the list of all.

import { get } from "./api.js";
import { COLOURS, bars } from "./charts.js";
import {
  address,
  byId,
  calmly,
  complain,
  el,
  featureLink,
  fill,
  labelled,
  number,
  percent,
  remember,
  table,
} from "./dom.js";
import { longWork, notes } from "./longwork.js";

const SHOWN = 20;
const LISTED = 120;
const STRONGEST = 10;
let features = [];

async function start() {
  longWork(
    "/importance",
    byId("importance"),
    {
      start: "Work out the importance",
      running: "Working out the importance",
      about:
        "How much each feature contributes to the embedding, with intervals over rounds of resampling. It takes seconds to minutes.",
    },
    drawImportance,
  );
  longWork(
    "/saliency",
    byId("saliency"),
    {
      start: "Work out the saliency",
      running: "Working out the saliency",
      about: "Which features separate the classes in each region of the data. It takes seconds to minutes.",
    },
    drawSaliency,
  );
  try {
    const found = await get("/features");
    features = found.features;
    const wanted = new URLSearchParams(location.search).get("family");
    byId("family").append(
      ...found.families.map((one) =>
        el("option", { value: one.family, selected: one.family === wanted }, `${one.family} (${one.features})`),
      ),
    );
    byId("text").addEventListener("input", calmly(list, 150));
    byId("family").addEventListener("change", list);
    byId("filter").addEventListener("submit", (event) => event.preventDefault());
    list();
  } catch (error) {
    complain(error);
  }
}

function list() {
  const [text, family] = [byId("text").value.trim(), byId("family").value];
  remember({ text, family });
  const found = features.filter(
    (one) => one.feature.toLowerCase().includes(text.toLowerCase()) && (!family || one.family === family),
  );
  byId("shown").textContent =
    `${found.length} of ${features.length} features${found.length > LISTED ? `; the first ${LISTED} are listed` : ""}`;
  fill(
    byId("list"),
    found.slice(0, LISTED).map((one) => el("li", {}, featureLink(one.feature))),
  );
}

function drawImportance(result) {
  const families = [...new Set(result.families.map((one) => one.family))];
  const colour = (family) => COLOURS[Math.max(0, families.indexOf(family)) % COLOURS.length];
  const first = result.table.slice(0, SHOWN);
  const shown = first.map((one) => ({
    name: one.feature,
    value: one.importance,
    low: one.ci_low,
    high: one.ci_high,
    colour: colour(one.family),
  }));
  const whole = result.families.map((one) => ({
    name: `${one.family} (${one.n_features})`,
    value: one.importance,
    low: one.ci_low,
    high: one.ci_high,
    colour: colour(one.family),
  }));
  return [
    bars(
      `The ${first.length} most important of ${result.table.length} features; the most important is ${first[0]?.feature}. Lines are 95 % intervals, colours are families.`,
      shown,
      "share of the importance",
      (name) => location.assign(address("/feature", { name })),
    ),
    table(
      "All features by importance; choose one to see its distribution",
      [
        ["Feature", (row) => featureLink(row.feature)],
        ["Family", (row) => row.family],
        ["Importance", (row) => number(row.importance, 3), true],
        ["95 % interval", (row) => interval(row), true],
        ["q", (row) => (row.q_value === null || row.q_value === undefined ? "" : number(row.q_value, 2)), true],
        ["Selected in", (row) => percent(row.selected_share), true],
      ],
      result.table,
    ),
    el("h3", {}, "Families"),
    bars(
      `Importance of ${families.length} families of features; the strongest is ${[...whole].sort((a, b) => b.value - a.value)[0]?.name}.`,
      whole,
      "share of the importance",
    ),
    stability(result.stability),
    comparison(result.comparison ?? []),
    notes(result.warnings, result.notes),
  ];
}

const interval = (row) =>
  row.ci_low === null || row.ci_low === undefined ? "" : `${number(row.ci_low, 2)} to ${number(row.ci_high, 2)}`;

function stability(found) {
  if (!found) return null;
  const known = (name, digits = 3) => (typeof found[name] === "number" ? number(found[name], digits) : null);
  const rows = [
    [
      "Nogueira's measure",
      known("nogueira") && `${known("nogueira")} (95 % interval ${known("ci_low")} to ${known("ci_high")})`,
    ],
    ["Jaccard index", known("jaccard") && `${known("jaccard")} (chance ${known("jaccard_chance", 2)})`],
    ["Rounds", known("n_rounds")],
    ["Features selected in each", known("n_selected")],
  ].filter(([, value]) => value !== null);
  return el(
    "div",
    {},
    el("h3", {}, "Stability"),
    el("p", { class: "hint" }, "How alike the features selected in each round are: 1 is the same each time."),
    el(
      "dl",
      { class: "facts" },
      rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
    ),
  );
}

function comparison(rows) {
  if (!rows.length) return null;
  const columns = Object.keys(rows[0]).filter((name) => name !== "feature");
  return el(
    "details",
    {},
    el("summary", {}, "Beside simple filters"),
    table(
      "The same features by simple filters and without labels",
      [
        ["Feature", (row) => featureLink(row.feature)],
        ...columns.map((name) => [name.replaceAll("_", " "), (row) => number(row[name], 3), true]),
      ],
      rows.slice(0, 100),
    ),
  );
}

function drawSaliency(result) {
  const regions = table("Regions and whether they can be trusted", REGION_COLUMNS, result.regions);
  const none = result.rankings.length ? null : el("p", {}, "No region is above chance, so nothing is ranked.");
  return [
    none,
    regions,
    el("div", { class: "columns two" }, result.rankings.map(ranked)),
    notes(result.warnings, result.notes),
  ];
}

const REGION_COLUMNS = [
  ["Region", (row) => String(row.region + 1)],
  ["Points to", (row) => labelled(row.label)],
  ["Cases", (row) => number(row.n_samples, 3), true],
  ["p (permutation)", (row) => number(row.p_value, 2), true],
  ["Above chance", (row) => (row.above_null ? "✓ yes" : "✗ no")],
  ["Apart from others", (row) => String(row.separates ?? "")],
];

/** The strongest features of one region. */
function ranked(ranking) {
  const name = `Region ${ranking.region + 1}: ${labelled(ranking.label)}`;
  const columns = [
    ["Feature", (row) => featureLink(row.feature)],
    ["Saliency", (row) => number(row.saliency, 3), true],
    ["95 % interval", interval, true],
    ["Sign agrees", (row) => percent(row.sign_agreement), true],
  ];
  return el(
    "div",
    {},
    el("h3", {}, name),
    table(`${name}, strongest features`, columns, ranking.features.slice(0, STRONGEST)),
  );
}

start();
