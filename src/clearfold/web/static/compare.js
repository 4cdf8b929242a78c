// Query and hit side by side: both images, their nuclei coloured by one feature, and the reasons.

import { get } from "./api.js";
import { rampLegend } from "./colours.js";
import { address, byId, el, fill, labelled, number, table, featureLink } from "./dom.js";
import { clearOutlines, commonRange, drawOutlines, pane } from "./outlines.js";
import { reasonLists } from "./reasons.js";
import { verdict } from "./hits.js";

let running = null;

/** Open the dialog on one hit; `turn` is called with another hit's id, `closed` when it is left. */
export function compare(answer, hit, { turn, closed }) {
  const dialog = byId("compare");
  running?.abort();
  running = new AbortController();
  const place = answer.hits.indexOf(hit);
  const panes = [
    shown(answer.asked.image, `Tissue of the query ${answer.asked.name}`),
    shown(hit.image, `Tissue of case ${hit.case_id}`),
  ];
  fill(
    dialog,
    head(dialog, answer, hit, place, turn),
    el(
      "div",
      { class: "columns two" },
      side("Query", answer.asked.name, answer.asked, panes[0]),
      side("Hit", hit.case_id, hit, panes[1]),
    ),
    painter(answer, hit, panes),
    reasonLists(hit),
    everything(hit),
    links(hit),
  );
  dialog.onclose = () => {
    running.abort();
    closed();
  };
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

function head(dialog, answer, hit, place, turn) {
  const go = (step, text) => {
    const next = answer.hits[place + step];
    return el("button", { type: "button", class: "quiet", disabled: !next, onclick: () => turn(next.case_id) }, text);
  };
  return el(
    "div",
    { class: "dialog-head" },
    el(
      "div",
      {},
      el("h2", { id: "compare-title", class: "long" }, `Hit ${place + 1} of ${answer.hits.length}: ${hit.case_id}`),
      el("p", {}, `distance ${number(hit.distance)}, `, verdict(hit.agrees)),
    ),
    el(
      "div",
      { class: "buttons" },
      go(-1, "Previous"),
      go(1, "Next"),
      el("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Close"),
    ),
  );
}

function side(title, name, about, picture) {
  const patient = about.patient_id === null ? "" : `, patient ${about.patient_id}`;
  return el(
    "section",
    {},
    el("h3", { class: "long" }, `${title}: ${name}`),
    el("p", { class: "hint" }, labelled(about.label) + patient),
    picture,
  );
}

function shown(image, alt) {
  return image ? pane(image, alt) : el("p", { class: "hint" }, "No picture of it is kept.");
}

/** A choice of feature that colours the nuclei of both images. */
function painter(answer, hit, panes) {
  const sources = [
    answer.asked.nuclei
      ? [answer.asked.case === null ? "/query/nuclei" : "/case/nuclei", answer.asked.case ?? answer.asked.query]
      : null,
    hit.slide ? ["/case/nuclei", hit.case_id] : null,
  ];
  if (!sources.some(Boolean)) return null;
  const names = [...new Set([...hit.near, ...hit.far].map((one) => one.feature))];
  const first = names.find((name) => name.includes(".nucleus.")) ?? "";
  const choice = el(
    "select",
    { id: "painted" },
    el("option", { value: "" }, "no outlines"),
    el(
      "optgroup",
      { label: "Features named below" },
      names.map((name) => el("option", { value: name, selected: name === first }, name)),
    ),
  );
  offerOthers(choice, names);
  const says = el("div", { role: "status" });
  const paint = () => painted(choice, sources, panes, says, running.signal);
  choice.addEventListener("change", paint);
  if (first) paint();
  return el(
    "div",
    { class: "row controls inline" },
    el("div", { class: "field" }, el("label", { for: "painted" }, "Nuclei coloured by"), choice),
    el("div", { class: "field" }, says),
  );
}

/** Every feature that is a mean over nuclei can be looked at, too. */
async function offerOthers(choice, names) {
  const found = await get("/features").catch(() => ({ features: [] }));
  const others = found.features
    .map((one) => one.feature)
    .filter((name) => /\.nucleus\..*\.mean$/.test(name) && !names.includes(name));
  if (others.length)
    choice.append(
      el(
        "optgroup",
        { label: "Other features of nuclei" },
        others.map((name) => el("option", { value: name }, name)),
      ),
    );
}

async function painted(choice, sources, panes, says, signal) {
  const feature = choice.value;
  const still = () => choice.value === feature && !signal.aborted;
  panes.forEach(clearOutlines);
  if (!feature) return fill(says);
  fill(says, el("p", { class: "hint" }, "Finding nuclei …"));
  try {
    const wanted = sources.map((one) => (one ? get(one[0], { id: one[1], feature }, signal) : null));
    const found = await Promise.all(wanted);
    if (!still()) return null;
    const range = commonRange(found);
    found.forEach((one, place) => one && drawOutlines(panes[place], one, range));
    const one = found.find(Boolean);
    const count = found.map((each) => (each ? each.features.length : "no")).join(" and ");
    return fill(
      says,
      el("p", { class: "hint" }, `${count} nuclei. ${one.note || one.column || ""}`),
      one.column ? rampLegend(range[0], range[1], one.unit) : null,
    );
  } catch (error) {
    if (error.name === "AbortError") return null;
    return fill(says, el("p", { class: "banner warn" }, error.message));
  }
}

function everything(hit) {
  return el(
    "details",
    {},
    el("summary", {}, "All features of both"),
    table(
      "Features, what makes near first",
      [
        ["Feature", (row) => featureLink(row.feature)],
        ["Near", (row) => number(row.near, 3), true],
        ["Far", (row) => number(row.far, 3), true],
        ["Query", (row) => number(row.query), true],
        ["Hit", (row) => number(row.hit), true],
        ["Median", (row) => number(row.median), true],
      ],
      hit.table,
    ),
  );
}

function links(hit) {
  return el(
    "p",
    { class: "buttons" },
    el("a", { class: "button quiet", href: address("/search", { case: hit.case_id }) }, "Search with this hit"),
    el("a", { class: "button quiet", href: address("/case", { id: hit.case_id }) }, "All about this case"),
    hit.slide ? el("a", { class: "button quiet", href: address("/slide", { id: hit.slide }) }, "Open its image") : null,
  );
}
