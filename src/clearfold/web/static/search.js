// The search view: ask with an image or a stored case, look at the hits, open one.

import { Refused, follow, get, post, suggestCases } from "./api.js";
import { boxOn } from "./box.js";
import { compare } from "./compare.js";
import { address, announce, byId, complain, el, fill, labelled, params, remember } from "./dom.js";
import { hitCard, labelShares } from "./hits.js";
import { pane } from "./outlines.js";
import { takeUploads } from "./upload.js";

let answer = null;
let latest = "";

async function start() {
  suggestCases(byId("case"), byId("cases"));
  takeUploads((form) => measured(form, "Measuring the image"));
  byId("stored").addEventListener("submit", (event) => {
    event.preventDefault();
    ask({ case: byId("case").value, query: null, hit: null });
  });
  byId("options").addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["k", "label", "own_patient"]) byId(id).addEventListener("change", () => ask(options()));
  window.addEventListener("popstate", show);
  get("/archive").then(offerLabels, complain);
  await show();
}

function offerLabels(facts) {
  const names = facts.labels.filter((one) => one.label !== null).map((one) => String(one.label));
  const wanted = params().get("label");
  byId("label").append(...names.map((name) => el("option", { value: name, selected: name === wanted }, name)));
  fill(
    byId("labels"),
    names.map((name) => el("option", { value: name })),
  );
}

const options = () => ({
  k: byId("k").value,
  label: byId("label").value,
  own_patient: byId("own_patient").checked ? 1 : null,
});

/** Ask something else: the address changes, and the answer with it. */
function ask(changes) {
  remember(changes, true);
  return show();
}

/** Send a question that must be measured first; its id becomes the address. */
async function measured(body, title) {
  complain(null);
  try {
    const result = await follow(await post("/queries", body), byId("progress"), title);
    if (result) await ask({ query: result.query.query, case: null, hit: null });
  } catch (error) {
    complain(error);
  }
}

/** Draw what the address asks for. */
async function show() {
  const wanted = Object.fromEntries(params());
  complain(null);
  if (!wanted.case && !wanted.query) {
    byId("answer").hidden = byId("large").hidden = true;
    return null;
  }
  const asked = {
    case: wanted.case,
    query: wanted.query,
    k: wanted.k || 10,
    label: wanted.label,
    own_patient: wanted.own_patient ? "true" : "",
    reasons: "false",
  };
  const key = (latest = JSON.stringify(asked));
  try {
    if (answer?.key !== key) {
      announce("Searching");
      const about = wanted.query ? await get("/query", { id: wanted.query }) : null;
      if (about?.large) return drawLarge(about);
      const found = await get("/search", asked);
      if (key !== latest) return null; // somebody has asked something else meanwhile
      answer = { ...found, key, about };
      draw();
    }
    await openHit(wanted.hit);
  } catch (error) {
    byId("answer").hidden = true;
    complain(error);
  }
  return null;
}

/** An image too large to measure at once: which part of it is meant? */
function drawLarge(about) {
  answer = null;
  byId("answer").hidden = true;
  const picture = pane(about.image, `The image ${about.name}`);
  const controls = el("div", { class: "buttons" });
  fill(
    byId("large"),
    el("h2", { id: "large-title", class: "long" }, `Which part of ${about.name}?`),
    el(
      "p",
      {},
      `It has ${about.width} × ${about.height} pixels, too many to measure at once. Draw a box on it, or move the box with the arrow keys.`,
    ),
    picture,
    controls,
  );
  box(picture, controls, about, { query: about.query });
}

function draw() {
  byId("large").hidden = true;
  byId("answer").hidden = false;
  byId("case").value = answer.asked.case ?? "";
  drawAsked(byId("asked"));
  fill(
    byId("hits"),
    answer.hits.map((hit, place) => hitCard(hit, place, (id) => ask({ hit: id }))),
  );
  const many = answer.hits.length;
  const said = many
    ? `${many} nearest case${many === 1 ? "" : "s"}. Choose one to see why it was found.`
    : "No case was found.";
  byId("summary").textContent = said;
  announce(said);
  const strange = byId("strange");
  if (answer.familiar) strange.hidden = true;
  else
    fill(
      strange,
      el("p", {}, el("strong", {}, "⚠ Unfamiliar query. Take the hits with care. ")),
      el("p", {}, sentence(answer.strange)),
    );
}

const sentence = (text) =>
  text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "It lies outside what the archive has seen.";

function drawAsked(place) {
  const { asked, about } = answer;
  const picture = asked.image
    ? pane(asked.image, `Tissue of the query ${asked.name}`)
    : el("span", { class: "thumb none" }, "no picture is kept");
  const boxes = el("div", { class: "buttons" });
  const facts = [
    ["Label", labelled(asked.label)],
    asked.patient_id === null ? null : ["Patient", asked.patient_id],
    about?.nuclei ? ["Nuclei", about.nuclei] : null,
    about?.mpp ? ["µm per pixel", about.mpp] : null,
    about ? ["Pixels", `${about.width} × ${about.height}`] : null,
    about?.region ? ["Region", `from ${Math.round(about.region.x)}, ${Math.round(about.region.y)} of the whole`] : null,
  ];
  fill(
    place,
    el("h2", { id: "asked-title", class: "long" }, `Query: ${asked.name}`),
    el("div", {}, picture, boxes),
    el(
      "div",
      {},
      el(
        "dl",
        { class: "facts" },
        facts
          .filter(Boolean)
          .flatMap(([name, value]) => [el("dt", {}, name), el("dd", { class: "long" }, String(value))]),
      ),
      (about?.warnings ?? []).map((text) => el("p", { class: "banner warn" }, text)),
      answer.missing
        ? el("p", { class: "hint" }, `${answer.missing} features have no value; the archive's median took their place.`)
        : null,
      labelShares(answer.labels),
    ),
    el(
      "p",
      { class: "buttons" },
      asked.nuclei
        ? el(
            "button",
            { type: "button", class: "quiet", onclick: () => chooseRegion(picture, boxes) },
            "Search with a region of it",
          )
        : null,
      el(
        "a",
        { class: "button quiet", href: address("/map", { case: asked.case, query: asked.query }) },
        "Show on the map",
      ),
    ),
  );
}

/** A box on the query's image is a new question. */
async function chooseRegion(picture, controls) {
  const { asked, about } = answer;
  try {
    const of = asked.case === null ? about : await get("/slide", { id: `case:${asked.case}` });
    const source = asked.case === null ? { query: asked.query } : { slide: of.id };
    box(picture, controls, of, asked.label === null ? source : { ...source, label: String(asked.label) });
  } catch (error) {
    complain(error);
  }
}

function box(picture, controls, { width, height }, source) {
  boxOn(picture, [width, height], controls, (region) => measured({ ...source, ...region }, "Measuring the region"));
}

async function openHit(id) {
  const dialog = byId("compare");
  if (!id) {
    if (dialog.open) dialog.close();
    return;
  }
  const hit = answer.hits.find((one) => one.case_id === id);
  if (!hit) throw new Refused(404, `${id} is not among these hits.`);
  // why it was found is worked out when somebody asks: the hits are there at once
  if (!hit.near)
    Object.assign(hit, await get("/reasons", { case: answer.asked.case, query: answer.asked.query, hit: id }));
  if (params().get("hit") !== id) return;
  const opener = () =>
    [...document.querySelectorAll("#hits .hit")].find((one) => one.dataset.case === params().get("hit"));
  compare(answer, hit, {
    turn: (next) => ask({ hit: next }),
    closed: () => {
      const button = opener();
      remember({ hit: null });
      button?.focus();
    },
  });
}

start();
