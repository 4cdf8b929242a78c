// The evidence view: what the archive finds when every case asks, beside chance; and survival of groups.

import { get } from "./api.js";
import { COLOURS, curve, figure } from "./charts.js";
import { byId, complain, el, fill, labelled, number, percent, table } from "./dom.js";
import { longWork, notes } from "./longwork.js";

longWork(
  "/evidence",
  byId("evidence"),
  {
    start: "Evaluate this archive",
    running: "Evaluating",
    about: "Patients are held out in folds; their images ask an archive made of the others. It takes minutes.",
  },
  drawEvidence,
);

get("/archive").then((facts) => {
  const place = byId("survival");
  if (!facts.survival)
    return fill(place, el("p", { class: "hint" }, "This archive has no survival times (columns time and event)."));
  const words = {
    start: "Work out survival",
    running: "Working out survival",
    about: "Risk groups are made out of fold, then their survival is compared.",
  };
  return longWork("/survival", place, words, drawSurvival);
}, complain);

const shown = (value, digits = 3) => (value === null || value === undefined ? "" : number(value, digits));
const fixed = (value) => (value === null || value === undefined ? "" : value.toFixed(3));
const range = (row, low, high) =>
  row[low] === null || row[low] === undefined ? "" : `${fixed(row[low])} to ${fixed(row[high])}`;

function drawEvidence(result) {
  const said = `${result.cases} cases of ${result.patients} patients, ${result.folds} folds, ${result.embedding}.`;
  return [
    result.verdict ? el("p", { class: "lead" }, result.verdict) : null,
    el("p", { class: "hint" }, said),
    table(
      "Area under the precision-recall curve (AUPRC), 1 is best, with chance and 95 % interval",
      [
        ["Method", (row) => row.method],
        ["AUPRC", (row) => fixed(row.macro), true],
        ["95 % interval", (row) => range(row, "macro_low", "macro_high"), true],
        ["Chance", (row) => fixed(row.chance_macro), true],
        ["First hit right", (row) => percent(row.precision_at_1), true],
        ["Of 5", (row) => percent(row.precision_at_5), true],
        ["Of 10", (row) => percent(row.precision_at_10), true],
        ["Archive better by", (row) => (row === result.table[0] ? "" : fixed(row.difference)), true],
        [
          "95 % interval",
          (row) => (row === result.table[0] ? "" : range(row, "difference_low", "difference_high")),
          true,
        ],
      ],
      result.table,
    ),
    precisionRecall(result),
    el("div", { class: "columns two" }, classes(result.classes ?? []), confusion(result.confusion)),
    notes(result.notes ?? []),
  ];
}

function precisionRecall(result) {
  const dash = ["solid", "dash", "dot", "dashdot"];
  const traces = Object.entries(result.curves ?? {}).flatMap(([name, one], place) => {
    // a band around each of nine curves would hide them all: the archive's own has it
    const own = name === result.table[0].method;
    const drawn = curve(
      name,
      one.recall,
      one.precision,
      own && one.low,
      own && one.high,
      COLOURS[place % COLOURS.length],
    );
    Object.assign(drawn.at(-1).line, own ? { width: 4 } : { dash: dash[place % 4] });
    return drawn;
  });
  if (!traces.length) return null;
  const chance = result.table[0]?.chance_macro;
  if (typeof chance === "number")
    traces.push({
      type: "scatter",
      mode: "lines",
      name: "chance",
      x: [0, 1],
      y: [chance, chance],
      line: { color: "#66717d", dash: "dot" },
    });
  const words = result.table.map((row) => `${row.method} ${shown(row.macro)}`).join(", ");
  return figure(`Precision against recall. AUPRC: ${words}; chance ${shown(chance)}.`, traces, {
    height: 460,
    xaxis: { title: { text: "recall" }, range: [0, 1] },
    yaxis: { title: { text: "precision" }, range: [0, 1.02] },
  });
}

function classes(rows) {
  if (!rows.length) return null;
  return table(
    "AUPRC by class",
    [
      ["Class", (row) => labelled(row.label)],
      ["Queries", (row) => String(row.queries), true],
      ["AUPRC", (row) => fixed(row.value), true],
      ["Chance", (row) => fixed(row.chance), true],
    ],
    rows,
  );
}

function confusion(found) {
  if (!found?.rows?.length) return null;
  const rows = found.rows.map((counts, place) => ({ label: found.labels[place], counts }));
  return table(
    "Label of the query (line) and of its hits (column)",
    [
      ["", (row) => labelled(row.label)],
      ...found.labels.map((label, place) => [labelled(label), (row) => shown(row.counts[place]), true]),
    ],
    rows,
  );
}

const named = (group) => (["low", "high"].includes(group.name) ? `${group.name} risk` : group.name);

function drawSurvival(result) {
  const traces = result.groups.flatMap((one, place) =>
    curve(
      `${named(one)} (${one.cases})`,
      one.time,
      one.survival,
      one.low,
      one.high,
      COLOURS[place % COLOURS.length],
      "hv",
    ),
  );
  const numbers = table(
    "Groups",
    [
      ["Group", named],
      ["Cases", (row) => String(row.cases), true],
      ["Events", (row) => String(row.events), true],
    ],
    result.groups,
  );
  const facts = [
    ["Log-rank p", shown(result.log_rank_p, 2)],
    [
      "Hazard ratio",
      result.hazard_ratio
        ? `${shown(result.hazard_ratio)} (${shown(result.hazard_low)} to ${shown(result.hazard_high)})`
        : "",
    ],
    ["Concordance", shown(result.concordance)],
  ].filter(([, value]) => value !== "");
  return [
    figure(
      `Share alive over time in ${result.groups.length} groups, with 95 % bands. Log-rank p = ${shown(result.log_rank_p, 2)}.`,
      traces,
      {
        height: 380,
        xaxis: { title: { text: "time" }, rangemode: "tozero" },
        yaxis: { title: { text: "share alive" }, range: [0, 1.02] },
      },
      numbers,
    ),
    el(
      "dl",
      { class: "facts" },
      facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
    ),
    notes(result.notes ?? []),
  ];
}
