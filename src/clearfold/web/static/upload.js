// The form for an image: chosen, dropped or sent by its button.

import { byId, complain } from "./dom.js";

/** `send` gets a form with the file, and the scale and label where they were given. */
export function takeUploads(send) {
  const upload = () => {
    complain(null);
    const form = new FormData(byId("upload"));
    for (const name of ["mpp", "label"]) if (!form.get(name)) form.delete(name);
    if (!byId("file").files.length) return complain(new Error("Choose an image first."));
    return send(form);
  };
  byId("upload").addEventListener("submit", (event) => {
    event.preventDefault();
    upload();
  });
  byId("file").addEventListener("change", () => byId("file").files.length && upload());
  takeDrops(byId("drop"), upload);
}

function takeDrops(zone, upload) {
  for (const name of ["dragenter", "dragover"]) {
    zone.addEventListener(name, (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
  }
  for (const name of ["dragleave", "drop"]) zone.addEventListener(name, () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    if (!event.dataTransfer.files.length) return;
    byId("file").files = event.dataTransfer.files;
    upload();
  });
}
