// Hits as cards, and what their labels say beside chance.

import { el, labelled, number, percent, table } from "./dom.js";
import { shareBar } from "./reasons.js";

/** Agreement in words and a sign; the colour of the frame only repeats it. */
export function verdict(agrees) {
  if (agrees === null) return el("span", { class: "verdict" }, "label of the query not known");
  return agrees
    ? el("span", { class: "verdict agrees" }, "✓ same label")
    : el("span", { class: "verdict differs" }, "✗ other label");
}

/** One hit. */
export function hitCard(hit, place, open) {
  const frame = { true: "agrees", false: "differs", null: "" }[String(hit.agrees)];
  const button = el(
    "button",
    { type: "button", class: `hit ${frame}`, "data-case": hit.case_id, onclick: () => open(hit.case_id) },
    hit.thumbnail
      ? el("img", { class: "thumb", src: hit.thumbnail, alt: `Tissue of case ${hit.case_id}`, loading: "lazy" })
      : el("span", { class: "thumb none" }, "no picture"),
    el("strong", { class: "long" }, `${place + 1}. ${hit.case_id}`),
    el("span", {}, labelled(hit.label)),
    hit.agrees === null ? null : verdict(hit.agrees),
    hit.patient_id === null ? null : el("span", { class: "hint" }, `patient ${hit.patient_id}`),
    el("span", { class: "hint" }, `distance ${number(hit.distance)}`),
  );
  return el("li", {}, button);
}

/** Shares of labels among the hits, with the mark of chance. */
export function labelShares(labels) {
  if (!labels.length) return el("p", { class: "hint" }, "No hit has a label.");
  return table(
    "Labels among the hits; the mark is chance",
    [
      ["Label", (row) => labelled(row.label)],
      ["Hits", (row) => String(row.hits), true],
      [
        "Share and chance",
        (row) => [
          shareBar(row.share, row.chance),
          el("span", { class: "hint" }, `${percent(row.share)}, chance ${percent(row.chance)}`),
        ],
      ],
    ],
    labels,
  );
}
