// The map view: every case as a point, coloured as wished, the query and its hits marked, groups described.

import { decoded, get, suggestCases } from "./api.js";
import { address, announce, byId, complain, el, fill, labelled, number, params, remember, table } from "./dom.js";
import { showGroup } from "./group.js";
import { inside, packed, simplified, unpacked } from "./lasso.js";
import { byCategory, byNumber } from "./painting.js";
import { Scatter } from "./scatter.js";

const state = { revision: "", ids: null, colour: null, axes: [0, 1] };
const scatter = new Scatter(byId("map"), { pointed, chosen, lassoed });

async function start() {
  controls();
  suggestCases(byId("find"), byId("cases"));
  try {
    const facts = await get("/archive");
    await offer(facts);
    await Promise.all([load(), mark()]);
    const names = await get("/map/ids");
    state.ids = names.ids;
    fromAddress();
  } catch (error) {
    complain(error);
  }
}

function controls() {
  byId("by").addEventListener("change", () => {
    remember({ by: byId("by").value });
    colour().catch(complain);
  });
  byId("axes").addEventListener("change", () => {
    remember({ axes: byId("axes").value, lasso: null });
    forget();
    Promise.all([load(), mark()]).catch(complain);
  });
  byId("find").addEventListener("change", () => ask({ case: byId("find").value, query: null }));
  byId("in").addEventListener("click", () => scatter.zoom(1.4));
  byId("out").addEventListener("click", () => scatter.zoom(1 / 1.4));
  byId("fit").addEventListener("click", () => scatter.fit());
  for (const tool of document.querySelectorAll("input[name=tool]"))
    tool.addEventListener("change", () => (scatter.tool = tool.value));
  window.addEventListener("popstate", () => mark().catch(complain));
}

function ask(changes) {
  remember(changes, true);
  mark().catch(complain);
}

/** What the points can be coloured by, and which axes there are. */
async function offer(facts) {
  const wanted = params().get("by") ?? "label";
  const option = (value, text) => el("option", { value, selected: value === wanted }, text);
  const columns = facts.columns.filter((name) => name !== "label");
  fill(
    byId("by"),
    el(
      "optgroup",
      { label: "Known of the cases" },
      option("label", "label"),
      columns.map((name) => option(name, name)),
    ),
  );
  get("/features").then((found) => {
    for (const { family } of found.families) {
      const own = found.features.filter((one) => one.family === family);
      byId("by").append(
        el(
          "optgroup",
          { label: `Feature: ${family}` },
          own.map((one) => option(`feature:${one.feature}`, one.feature)),
        ),
      );
    }
  }, complain);
  const active = facts.versions.find((one) => one.number === facts.active);
  const many = Math.min(5, active?.dimension ?? 2);
  const pairs = [];
  for (let one = 0; one < many; one += 1) for (let other = one + 1; other < many; other += 1) pairs.push([one, other]);
  const now = params().get("axes") ?? "0,1";
  fill(
    byId("axes"),
    pairs.map((pair) =>
      el("option", { value: pair.join(","), selected: pair.join(",") === now }, `${pair[0] + 1} and ${pair[1] + 1}`),
    ),
  );
}

async function load() {
  const axes = params().get("axes") ?? "0,1";
  state.axes = axes.split(",").map(Number);
  const [found] = await Promise.all([get("/map", { axes }), colour()]);
  state.revision = found.revision;
  scatter.place(decoded(found.x), decoded(found.y));
  byId("map").setAttribute(
    "aria-label",
    `Map of ${found.count} cases by ${found.embedding}. The table of nearest cases says the same in words.`,
  );
  byId("map").dataset.ready = String(found.count);
}

async function colour() {
  byId("tip").hidden = true;
  const by = params().get("by") ?? "label";
  const found = await get("/map/colour", { by });
  state.colour = found;
  const painted = found.kind === "category" ? byCategory(found) : byNumber(found);
  Object.assign(state, painted);
  scatter.paint = painted.paint;
  fill(byId("legend"), painted.legend(category));
  scatter.draw();
}

function category(place, name) {
  const rows = [...state.codes.keys()].filter((row) => state.codes[row] === place);
  group(rows, `${state.colour.by} ${name}`);
}

function group(rows, title) {
  byId("tip").hidden = true;
  scatter.members = rows.length ? new Set(rows) : null;
  scatter.draw();
  return showGroup(rows, state.revision, title, forget);
}

function forget() {
  scatter.members = null;
  scatter.lasso = [];
  byId("group").hidden = true;
  remember({ lasso: null });
  scatter.draw();
}

/** A lasso becomes part of the address. */
function lassoed(polygon) {
  const corners = simplified(polygon);
  remember({ lasso: packed(corners) });
  scatter.lasso = corners;
  group(inside(corners, scatter.x, scatter.y), "Lasso");
}

function fromAddress() {
  const corners = unpacked(params().get("lasso"));
  if (corners) lassoed(corners);
}

function pointed(row, left, top) {
  const tip = byId("tip");
  tip.hidden = row < 0 || !state.ids;
  if (tip.hidden) return;
  const text = `${state.ids[row]}: ${described(row)}`;
  tip.textContent = text;
  tip.style.left = `${Math.min(left + 24, byId("map").clientWidth - 150)}px`;
  tip.style.top = `${top + 24}px`;
  if (row === scatter.current) {
    announce(text);
    about(state.ids[row]);
  }
}

function described(row) {
  const { colour: found } = state;
  if (found.kind === "number") return `${number(state.values[row])} ${found.unit}`;
  return labelled(found.names[state.codes[row]]);
}

function chosen(row, search = false) {
  if (!state.ids) return;
  const id = state.ids[row];
  if (search) location.assign(address("/search", { case: id }));
  else ask({ case: id, query: null });
}

async function about(id) {
  const wanted = (state.wanted = id);
  const one = await get("/case", { id }).catch(() => null);
  if (!one || wanted !== state.wanted) return;
  fill(
    byId("here"),
    one.thumbnail && el("img", { class: "thumb", src: one.thumbnail, alt: `Tissue of case ${id}` }),
    el(
      "p",
      {},
      el("strong", { class: "long" }, id),
      el("br"),
      labelled(one.label),
      one.patient_id === null ? "" : `, patient ${one.patient_id}`,
    ),
    el(
      "p",
      { class: "buttons" },
      el("a", { class: "button quiet", href: address("/search", { case: id }) }, "Search with it"),
      el("a", { class: "button quiet", href: address("/case", { id }) }, "All about it"),
    ),
  );
}

/** Mark the query and its hits, and list them: the map in words. */
async function mark() {
  complain(null);
  const wanted = { case: params().get("case"), query: params().get("query") };
  if (!wanted.case && !wanted.query) {
    scatter.marks = [];
    byId("near").hidden = true;
    return scatter.draw();
  }
  const found = await get("/search", { ...wanted, k: 10, reasons: "false" });
  const at = (point) => state.axes.map((axis) => point[axis]);
  const hits = found.hits.map((hit, place) => ({ point: at(hit.point), text: String(place + 1) }));
  scatter.marks = [...hits, { point: at(found.asked.point), text: "query", strong: true }];
  scatter.draw();
  if (wanted.case) about(wanted.case);
  const open = (hit) => el("a", { href: address("/search", { ...wanted, hit: hit.case_id }) }, hit.case_id);
  return fill(
    byId("near"),
    el("h2", { id: "near-title", class: "long" }, `Nearest to ${found.asked.name ?? wanted.case}`),
    table(
      "The cases marked on the map, nearest first",
      [
        ["Case", open],
        ["Label", (hit) => labelled(hit.label)],
        ["Patient", (hit) => hit.patient_id ?? ""],
        ["Distance", (hit) => number(hit.distance), true],
      ],
      found.hits,
    ),
  );
}

start();
