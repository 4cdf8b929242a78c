// The list of what can be opened in the slide viewer.

import { get } from "./api.js";
import { address, byId, el, fill, labelled } from "./dom.js";

const card = (id, name, more, picture) =>
  el(
    "li",
    {},
    el(
      "a",
      { class: "hit", href: address("/slide", { id }) },
      el("img", { class: "thumb", src: picture, alt: `Overview of ${name}`, loading: "lazy" }),
      el("strong", { class: "long" }, name),
      more && el("span", { class: "hint" }, more),
    ),
  );

async function files() {
  const found = await get("/slides");
  if (!found.slides.length)
    return fill(
      byId("files"),
      el("p", { class: "hint" }, "None. Start the server with --slides FOLDER to look at slides."),
    );
  const picture = (id) => address("/api/v1/slide/thumbnail", { id, most: 256 });
  return fill(
    byId("files"),
    el(
      "ul",
      { class: "hits wide" },
      found.slides.map((one) => card(one.id, one.name, "", picture(one.id))),
    ),
    found.more ? el("p", { class: "hint" }, "There are more than are listed here.") : null,
  );
}

async function images() {
  const found = await get("/cases", { per_page: 50 });
  const open = found.cases.filter((one) => one.slide);
  if (!open.length) return fill(byId("images"), el("p", { class: "hint" }, "No stored case has an image file here."));
  return fill(
    byId("images"),
    el(
      "ul",
      { class: "hits wide" },
      open.map((one) => card(one.slide, one.case_id, labelled(one.label), one.thumbnail ?? one.image)),
    ),
    found.pages > 1 ? el("p", {}, el("a", { href: "/cases" }, "Look through all cases")) : null,
  );
}

files().catch((error) => fill(byId("files"), el("p", { class: "banner bad", role: "alert" }, error.message)));
images().catch((error) => fill(byId("images"), el("p", { class: "banner bad", role: "alert" }, error.message)));
