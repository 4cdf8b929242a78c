// What distinguishes a group of cases from the rest.

import { post } from "./api.js";
import { announce, byId, complain, el, featureLink, fill, labelled, number, percent, table } from "./dom.js";
import { shareBar } from "./reasons.js";

/** Describe the cases of these rows beside all others. */
export async function showGroup(rows, revision, title, leave) {
  const place = byId("group");
  if (!rows.length) {
    announce("No case lies inside.");
    return fill(
      place,
      el("h2", { id: "group-title" }, "Group"),
      el("p", {}, "No case lies inside. Draw a larger lasso."),
    );
  }
  fill(place, el("h2", { id: "group-title" }, title), el("p", { class: "hint" }, "Comparing …"));
  try {
    const found = await post("/map/group", { rows, revision });
    fill(
      place,
      el("h2", { id: "group-title", tabindex: "-1" }, `${title}: ${found.count} cases beside ${found.rest} others`),
      el("div", { class: "columns" }, features(found), labels(found)),
      el("p", { class: "hint" }, found.note),
      el("p", {}, el("button", { type: "button", class: "quiet", onclick: leave }, "Forget the group")),
    );
    announce(
      `Group of ${found.count} cases. ${found.features.length ? `Strongest feature ${found.features[0].feature}.` : ""}`,
    );
  } catch (error) {
    place.hidden = true;
    complain(error);
  }
  return place;
}

function features(found) {
  if (!found.features.length) return el("p", {}, "No feature distinguishes the group.");
  const unit = (row) => (row.unit ? ` ${row.unit}` : "");
  return table(
    "Features that distinguish the group, strongest first",
    [
      ["Feature", (row) => featureLink(row.feature)],
      ["Family", (row) => row.family],
      ["Group (median)", (row) => number(row.inside) + unit(row), true],
      ["Others (median)", (row) => number(row.rest) + unit(row), true],
      ["Difference in SD", (row) => `${row.difference > 0 ? "▲ +" : "▼ "}${number(row.difference, 3)}`, true],
      ["AUC", (row) => number(row.auc, 3), true],
    ],
    found.features,
  );
}

function labels(found) {
  if (!found.labels.length) return null;
  return table(
    "Labels of the group; the mark is their share of the others",
    [
      ["Label", (row) => labelled(row.label)],
      ["Cases", (row) => String(row.inside), true],
      [
        "Share",
        (row) => [
          shareBar(row.share, row.rest_share),
          el("span", { class: "hint" }, `${percent(row.share)}, others ${percent(row.rest_share)}`),
        ],
      ],
    ],
    found.labels,
  );
}
