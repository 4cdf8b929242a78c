// Nuclei over tissue, each outlined in the colour of its value.

import { css, ramp, share } from "./colours.js";
import { svg } from "./dom.js";

/** An image in a pane over which things can be drawn. */
export function pane(address, alt) {
  const holder = document.createElement("div");
  holder.className = "pane";
  const image = document.createElement("img");
  image.className = "photo";
  image.src = address;
  image.alt = alt;
  image.addEventListener("load", () => holder.style.setProperty("--form", image.naturalWidth / image.naturalHeight));
  holder.append(image);
  return holder;
}

/** The range of values that several sets of outlines share, so that one colour means one value. */
export function commonRange(sets) {
  const known = sets.filter((one) => one && one.low !== null && one.high !== null);
  if (!known.length) return [NaN, NaN];
  return [Math.min(...known.map((one) => one.low)), Math.max(...known.map((one) => one.high))];
}

/** Draw outlines (GeoJSON in pixels of the whole image) over a pane. */
export function drawOutlines(holder, found, [low, high]) {
  clearOutlines(holder);
  const shapes = found.features.map((one) => {
    const colour = css(ramp(share(one.properties.value, low, high)));
    return svg("path", { class: "outline", d: path(one.geometry.coordinates[0]), stroke: colour, fill: colour });
  });
  const frame = {
    viewBox: `0 0 ${found.width} ${found.height}`,
    preserveAspectRatio: "none",
    "aria-hidden": "true",
    class: "nuclei",
  };
  holder.append(svg("svg", frame, shapes));
}

export function clearOutlines(holder) {
  holder.querySelector("svg.nuclei")?.remove();
}

function path(ring) {
  return `M${ring.map((point) => point.join(" ")).join("L")}Z`;
}
