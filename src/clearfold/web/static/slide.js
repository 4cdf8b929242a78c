// The slide view: look around, nuclei and a heat map over the tissue, search with what is in view.

import { follow, get, post } from "./api.js";
import { css, ramp, rampLegend, share } from "./colours.js";
import { address, announce, byId, calmly, complain, el, fill, number, params, remember } from "./dom.js";
import { Viewer } from "./viewer.js";

const MOST_PIXELS = 4e6;
const id = byId("slide").dataset.id;
const shown = { nuclei: null, heat: null };
let viewer = null;

async function start() {
  try {
    const slide = await get("/slide", { id });
    viewer = new Viewer(byId("slide"), slide, { moved, overlay });
    byId("scale").hidden = slide.mpp !== null;
    fromAddress();
    window.addEventListener("popstate", fromAddress);
  } catch (error) {
    return complain(error);
  }
  byId("in").addEventListener("click", () => viewer.zoomAt(1.5));
  byId("out").addEventListener("click", () => viewer.zoomAt(1 / 1.5));
  byId("fit").addEventListener("click", () => viewer.fit());
  byId("search").addEventListener("click", search);
  byId("box").addEventListener("click", toggleBox);
  byId("nuclei").addEventListener("click", () => toggle("nuclei", nuclei));
  byId("heat").addEventListener("click", () => toggle("heat", heat));
  byId("feature").addEventListener("change", () => remember({ feature: byId("feature").value }));
  const found = await get("/features").catch(() => ({ features: [] }));
  return fill(
    byId("features"),
    found.features.map((one) => el("option", { value: one.feature })),
  );
}

function fromAddress() {
  const wanted = params();
  viewer.box = unpacked(wanted.get("box"));
  const [x, y, zoom] = ["x", "y", "zoom"].map((name) => Number(wanted.get(name)));
  if (wanted.get("zoom") && [x, y, zoom].every(Number.isFinite)) viewer.go(x, y, zoom);
  else viewer.fit();
}

function toggleBox() {
  viewer.boxing = !viewer.boxing;
  if (!viewer.boxing) viewer.box = null;
  byId("box").setAttribute("aria-pressed", String(viewer.boxing));
  moved();
  viewer.draw();
}

/** x_y_width_height of a box, as the address holds it. */
const packed = (box) => box && [box.x, box.y, box.width, box.height].join("_");

function unpacked(text) {
  const [x, y, width, height] = (text ?? "").split("_").map(Number);
  return [x, y, width, height].every(Number.isFinite) ? { x, y, width, height } : null;
}

const keep = calmly(
  () =>
    remember({
      box: packed(viewer.box),
      x: Math.round(viewer.x),
      y: Math.round(viewer.y),
      zoom: Number(viewer.zoom.toPrecision(3)),
    }),
  250,
);

function moved() {
  if (!viewer) return;
  const { width, height } = viewer.region;
  const { mpp } = viewer.slide;
  const size = mpp ? `, ${number((width * mpp) / 1000, 3)} × ${number((height * mpp) / 1000, 3)} mm` : "";
  byId("where").textContent =
    `In view: ${width} × ${height} of ${viewer.slide.width} × ${viewer.slide.height} pixels${size}. Zoom ${number(100 * viewer.zoom, 3)} %.`;
  byId("search").textContent = viewer.box ? "Search with the box" : "Search with this view";
  const large = viewer.wanted.width * viewer.wanted.height > MOST_PIXELS;
  byId("nuclei").disabled = large && !shown.nuclei;
  byId("nuclei").title = large ? "Zoom in first: the region is too large" : "";
  keep();
}

/** A layer goes on, or off again. */
async function toggle(name, find) {
  const button = byId(name);
  complain(null);
  if (shown[name]) shown[name] = null;
  else {
    button.disabled = true;
    shown[name] = await find().catch(complain);
    button.disabled = false;
  }
  button.setAttribute("aria-pressed", String(Boolean(shown[name])));
  legend();
  viewer.draw();
}

/** Micrometres a pixel, where the file does not say it but the person does. */
const scale = () => (byId("mpp").value ? { mpp: Number(byId("mpp").value) } : {});

async function nuclei() {
  announce("Finding nuclei");
  fill(byId("progress"), el("p", { class: "card" }, "Finding nuclei …"));
  try {
    const found = await get("/slide/nuclei", { id, ...viewer.wanted, feature: byId("feature").value, ...scale() });
    announce(`${found.features.length} nuclei`);
    return found;
  } finally {
    byId("progress").replaceChildren();
  }
}

async function heat() {
  const feature = byId("feature").value;
  if (!feature) throw new Error("Choose a feature first; the heat map shows its value tile by tile.");
  return follow(
    await post("/slide/heat", { id, feature, tile: 256, ...scale() }),
    byId("progress"),
    `Mapping ${feature}`,
  );
}

async function search() {
  complain(null);
  try {
    const result = await follow(
      await post("/queries", { slide: id, ...viewer.wanted, ...scale() }),
      byId("progress"),
      "Measuring the region",
    );
    if (result) location.assign(address("/search", { query: result.query.query }));
  } catch (error) {
    complain(error);
  }
}

function legend() {
  const parts = [];
  if (shown.nuclei) {
    const { features, column, note, low, high, unit } = shown.nuclei;
    parts.push(
      el("p", { class: "hint" }, `${features.length} nuclei. ${note || column || ""}`),
      column ? rampLegend(low, high, unit) : null,
    );
  }
  if (shown.heat) {
    const { feature, tile, tiles, low, high, unit } = shown.heat;
    parts.push(
      el("p", { class: "hint" }, `Heat map of ${feature}: ${tiles.length} tiles of ${Math.round(tile ?? 0)} pixels.`),
      rampLegend(low, high, unit),
    );
  }
  fill(byId("legend"), parts);
}

function overlay(pen, toScreen) {
  if (viewer.box) drawBox(pen, toScreen, viewer.box);
  if (shown.heat) drawHeat(pen, toScreen, shown.heat);
  if (shown.nuclei) drawNuclei(pen, toScreen, shown.nuclei);
}

function drawBox(pen, toScreen, box) {
  const [left, top] = toScreen(box.x, box.y);
  const [right, bottom] = toScreen(box.x + box.width, box.y + box.height);
  pen.lineWidth = 5;
  pen.strokeStyle = "#ffffff";
  pen.strokeRect(left, top, right - left, bottom - top);
  pen.lineWidth = 3;
  pen.strokeStyle = "#1d5b96";
  pen.strokeRect(left, top, right - left, bottom - top);
}

function drawHeat(pen, toScreen, { tiles, low, high }) {
  pen.globalAlpha = 0.5;
  for (const one of tiles) {
    const [left, top] = toScreen(one.x, one.y);
    const [right, bottom] = toScreen(one.x + one.width, one.y + one.height);
    pen.fillStyle = css(ramp(share(one.value, low, high)));
    pen.fillRect(left, top, right - left, bottom - top);
  }
  pen.globalAlpha = 1;
}

function drawNuclei(pen, toScreen, { features, low, high }) {
  pen.lineWidth = 2;
  for (const one of features) {
    pen.beginPath();
    for (const point of one.geometry.coordinates[0]) pen.lineTo(...toScreen(...point));
    pen.strokeStyle = css(ramp(share(one.properties.value, low, high)));
    pen.stroke();
  }
}

start();
