// Work on the whole archive: offered, followed, cancelled, and its result drawn when it is there.

import { follow, get, post } from "./api.js";
import { el, fill } from "./dom.js";

/** Show /importance, /saliency, /evidence or /survival in `place`; `draw(result)` gives the nodes. */
export async function longWork(path, place, words, draw) {
  place.setAttribute("aria-busy", "true");
  try {
    const found = await get(path);
    if (found.state === "ready") fill(place, draw(found.result));
    else if (found.state === "running") await run(found.job);
    else offer(found.job?.error?.message);
  } catch (error) {
    if (error.status === 404) fill(place, el("p", { class: "hint" }, error.message));
    else offer(error.message);
  } finally {
    place.removeAttribute("aria-busy");
  }

  function offer(problem) {
    const start = el("button", { type: "button", onclick: () => begin() }, words.start);
    fill(
      place,
      problem ? el("p", { class: "banner bad", role: "alert" }, problem) : null,
      el("p", {}, words.about),
      el("p", {}, start),
    );
  }

  async function begin() {
    try {
      await run(await post(path));
    } catch (error) {
      offer(error.message);
    }
  }

  async function run(job) {
    const bar = el("div", {});
    fill(place, bar);
    const result = await follow(job, bar, words.running);
    if (result === null) offer("It was cancelled.");
    else fill(place, draw(result));
  }
}

/** Warnings and notes of a result. */
export function notes(...lists) {
  const said = lists.flat().filter(Boolean);
  return said.length
    ? el(
        "ul",
        { class: "notes" },
        said.map((text) => el("li", {}, String(text))),
      )
    : null;
}
