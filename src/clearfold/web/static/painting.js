// How the points of the map are coloured: by a category, with a shape for each, or by a number.

import { decoded } from "./api.js";
import { COLOURS } from "./charts.js";
import { ramp, rampLegend, share } from "./colours.js";
import { el, labelled, svg } from "./dom.js";

const SHADES = 64;
/** Beyond so many points, shapes are too small to be told apart. */
const SHAPED = 20000;
const FORMS = ["M8 2a6 6 0 1 0 .01 0z", "M3 3h10v10H3z", "M8 2l6 11H2z", "M8 1l7 7-7 7-7-7z"];

/** Codes of the points, the paint for them, and a legend whose buttons call `chosen(code, name)`. */
export function byCategory(found) {
  const codes = decoded(found.codes);
  const colours = found.names.map((_, place) => shade(place));
  const paint = { colours: colours.map(rgb), codes, shapes: codes.length <= SHAPED };
  return { codes, paint, legend: (chosen) => categories(found, colours, paint, chosen) };
}

/** The same for a number: blue is low, yellow is high. */
export function byNumber(found) {
  const values = decoded(found.values);
  const code = (value) => Math.round((SHADES - 1) * Math.min(1, Math.max(0, share(value, found.low, found.high))));
  const codes = Int32Array.from(values, (value) => (Number.isNaN(value) ? -1 : code(value)));
  const colours = Array.from({ length: SHADES }, (_, place) => ramp(place / (SHADES - 1)));
  return {
    values,
    paint: { colours, codes, shapes: false },
    legend: () => rampLegend(found.low, found.high, found.unit),
  };
}

const shade = (place) => COLOURS[place] ?? `#${[0, 8, 4].map((part) => channel((place * 137.5) % 360, part)).join("")}`;
const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** One channel of a colour of this hue, dark enough to read. */
function channel(hue, part) {
  const place = (part + hue / 30) % 12;
  const value = Math.round(255 * (0.4 - 0.24 * Math.max(-1, Math.min(place - 3, 9 - place, 1))));
  return value.toString(16).padStart(2, "0");
}

function categories(found, colours, { codes, shapes }, chosen) {
  const unknown = codes.filter((code) => code < 0).length;
  const line = (name, place) => {
    const sign = svg("path", { d: FORMS[shapes ? place % 4 : 0], fill: colours[place] });
    const says = { type: "button", class: "quiet", "aria-label": `Compare ${labelled(name)} with the rest` };
    return el(
      "li",
      {},
      svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, sign),
      el("span", {}, `${labelled(name)} (${found.counts[place]})`),
      el("button", { ...says, onclick: () => chosen(place, labelled(name)) }, "Compare"),
    );
  };
  return el(
    "ul",
    { class: "legend" },
    found.names.map(line),
    unknown ? el("li", {}, el("span", {}, `grey: not known (${unknown})`)) : null,
  );
}
