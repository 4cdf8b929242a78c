// From a value to a colour, and the legend that says which is which.

import { el, number } from "./dom.js";

const STOPS = [
  [28, 44, 140],
  [0, 128, 150],
  [60, 170, 80],
  [250, 225, 40],
];
const UNKNOWN = [168, 174, 182];

/** Blue through green to yellow for 0 to 1: lightness rises all the way, so it also reads without colour. */
export function ramp(share) {
  if (share === null || Number.isNaN(share)) return UNKNOWN;
  const place = Math.min(1, Math.max(0, share)) * (STOPS.length - 1);
  const left = Math.min(STOPS.length - 2, Math.floor(place));
  return STOPS[left].map((from, part) => Math.round(from + (STOPS[left + 1][part] - from) * (place - left)));
}

export const css = (rgb) => `rgb(${rgb[0]} ${rgb[1]} ${rgb[2]})`;

/** Where a value lies between low and high. */
export function share(value, low, high) {
  if (value === null || value === undefined || Number.isNaN(value)) return NaN;
  return high > low ? (value - low) / (high - low) : 0.5;
}

/** A bar of the colours with its ends named. */
export function rampLegend(low, high, unit = "") {
  const canvas = el("canvas", {
    width: "256",
    height: "1",
    role: "img",
    "aria-label": "Colours from low (blue) to high (yellow)",
  });
  const pen = canvas.getContext("2d");
  for (let x = 0; x < 256; x += 1) {
    pen.fillStyle = css(ramp(x / 255));
    pen.fillRect(x, 0, 1, 1);
  }
  const end = (value) => `${number(value, 3)}${unit ? ` ${unit}` : ""}`;
  return el("div", { class: "ramp" }, canvas, el("span", {}, end(low)), el("span", {}, end(high)));
}
