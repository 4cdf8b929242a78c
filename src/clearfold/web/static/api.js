// The HTTP API of this server, the same that any program can use.

import { address, el, fill, announce } from "./dom.js";

const ROOT = "/api/v1";

/** What the server said when it refused. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(ROOT + path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server does not answer. Is it still running?");
  }
  if (answer.status === 401) {
    location.assign(address("/login", { next: location.pathname + location.search }));
    throw new Refused(401, "A token is needed.");
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok)
    throw new Refused(answer.status, body.error?.message ?? `The server answered with status ${answer.status}.`);
  return body;
}

/** GET; `wanted` are the parameters. */
export const get = (path, wanted = {}, signal = undefined) => ask(address(path, wanted), { signal });

/** POST of JSON, or of a form with a file. */
export function post(path, body = {}) {
  if (body instanceof FormData) return ask(path, { method: "POST", body });
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

/** Numbers of an array {dtype, bdata}. */
export function decoded(array) {
  const bytes = Uint8Array.from(atob(array.bdata), (letter) => letter.charCodeAt(0));
  return array.dtype === "i4" ? new Int32Array(bytes.buffer) : new Float32Array(bytes.buffer);
}

/** Follow a job to its end, with a bar and a button to stop it in `place`; its result, or null when it was stopped. */
export async function follow(job, place, title) {
  const bar = el("progress", { max: "1", "aria-label": title });
  const words = el("p", {}, title);
  const stop = el("button", { type: "button", class: "quiet" }, "Cancel");
  stop.addEventListener("click", () => {
    stop.disabled = true;
    ask(`/jobs/${job.id}`, { method: "DELETE" }).catch(() => {});
  });
  fill(place, el("div", { class: "card job" }, words, bar, stop));
  announce(title);
  try {
    while (job.state === "waiting" || job.state === "running") {
      words.textContent = job.message ? `${title}: ${job.message}` : title;
      if (typeof job.progress === "number") bar.value = job.progress;
      job = await get(`/jobs/${job.id}`, { wait: 1 });
    }
  } finally {
    place.replaceChildren();
  }
  if (job.state === "failed") throw new Refused(job.error?.status ?? 500, job.error?.message ?? `${title} failed.`);
  announce(job.state === "cancelled" ? `${title}: cancelled` : `${title}: done`);
  return job.state === "cancelled" ? null : job.result;
}

/** Offer cases while somebody types an id. */
export function suggestCases(input, list) {
  let running = null;
  input.addEventListener("input", async () => {
    running?.abort();
    running = new AbortController();
    try {
      const found = await get("/names", { text: input.value, limit: 20 }, running.signal);
      fill(
        list,
        found.cases.map((name) => el("option", { value: name })),
      );
    } catch {
      // a list of suggestions is a help; without it the field still works
    }
  });
}
