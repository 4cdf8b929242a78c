// Why two cases are near, and on what they differ: bars, values in their own units, places in the archive.

import { el, svg, featureLink, number, percent } from "./dom.js";

/** A share as a bar, with a mark for chance if there is one. */
export function shareBar(share, chance = null, most = 1) {
  const along = (value) => Math.min(100, (100 * value) / most);
  return el(
    "span",
    { class: "share", "aria-hidden": "true" },
    svg(
      "svg",
      { viewBox: "0 0 100 10", preserveAspectRatio: "none" },
      svg("rect", { x: 0, y: 0, width: along(share ?? 0), height: 10, rx: 1 }),
      chance === null ? null : svg("line", { x1: along(chance), x2: along(chance), y1: 0, y2: 10 }),
    ),
  );
}

/** Both lists of reasons, near first. */
export function reasonLists(found) {
  const most = Math.max(0.01, ...found.near.concat(found.far).map((one) => one.share ?? 0));
  return [
    legend(),
    el(
      "div",
      { class: "columns" },
      side("What makes them near", found.near, most, "near"),
      side("On what they differ most", found.far, most, "far"),
    ),
    found.how ? el("p", { class: "hint" }, found.how) : null,
  ];
}

function side(title, reasons, most, kind) {
  if (!reasons.length) return el("div", {}, el("h3", {}, title), el("p", { class: "hint" }, "No feature stands out."));
  return el(
    "div",
    {},
    el("h3", {}, title),
    el(
      "ul",
      { class: `reasons ${kind}` },
      reasons.map((one) => line(one, most)),
    ),
  );
}

function line(one, most) {
  const more = one.alike ? ` (${one.alike} more like it)` : "";
  return el(
    "li",
    { class: "reason" },
    el(
      "div",
      {},
      featureLink(one.feature),
      el("span", { class: "hint" }, more),
      shareBar(one.share, null, most),
      el("span", { class: "hint" }, `share ${percent(one.share)}`),
    ),
    percentiles(one),
    el(
      "div",
      {},
      el("strong", {}, one.words),
      el(
        "div",
        { class: "hint" },
        `percentiles ${place(one.query_percentile)} and ${place(one.hit_percentile)}; median ${number(one.median)}`,
      ),
    ),
  );
}

const place = (value) => (value === null ? "missing" : String(Math.round(value)));

/** Query and hit on a line from the lowest to the highest case of the archive. */
function percentiles(one) {
  const x = (value) => 6 + 1.88 * value;
  const parts = [
    svg("line", { class: "track", x1: 6, x2: 194, y1: 16, y2: 16 }),
    svg("line", { class: "middle", x1: 100, x2: 100, y1: 8, y2: 24 }),
  ];
  if (one.hit_percentile !== null)
    parts.push(svg("circle", { class: "found", cx: x(one.hit_percentile), cy: 16, r: 7 }));
  if (one.query_percentile !== null)
    parts.push(svg("circle", { class: "query", cx: x(one.query_percentile), cy: 16, r: 4.5 }));
  return svg("svg", { class: "percentiles", viewBox: "0 0 200 32", "aria-hidden": "true" }, parts);
}

function legend() {
  const dot = (name, radius) =>
    svg(
      "svg",
      { viewBox: "0 0 16 16", "aria-hidden": "true" },
      svg("circle", { class: name, cx: 8, cy: 8, r: radius }),
    );
  return el(
    "p",
    { class: "hint keys" },
    el("span", {}, dot("query-dot", 5), "query"),
    el("span", {}, dot("hit-dot", 6), "hit"),
    el("span", {}, "on a line from the lowest to the highest case; the tick is the median"),
  );
}
