// A box on an image, by pointer or by keys, in pixels of the whole image.

import { announce, el, fill, svg } from "./dom.js";

const LEAST = 32;

/** Let somebody draw a box on a pane whose image has `size` [width, height]; `done` gets {x, y, width, height}. */
export function boxOn(holder, size, controls, done) {
  let box = { x: size[0] / 4, y: size[1] / 4, width: size[0] / 2, height: size[1] / 2 };
  const shape = svg("rect", { class: "box" });
  const layer = svg(
    "svg",
    {
      viewBox: `0 0 ${size[0]} ${size[1]}`,
      preserveAspectRatio: "none",
      tabindex: "0",
      role: "application",
      "aria-label": "Region to search with. Arrow keys move it, shift and arrow keys change its size, Enter searches.",
    },
    shape,
  );
  const says = el("span", { class: "hint" });

  const show = (next) => {
    box = inside(next, size);
    for (const name of ["x", "y", "width", "height"]) shape.setAttribute(name, box[name]);
    says.textContent = `${Math.round(box.width)} × ${Math.round(box.height)} pixels`;
  };
  const leave = () => {
    layer.remove();
    holder.classList.remove("boxing");
    fill(controls);
  };
  const search = () => {
    const found = Object.fromEntries(Object.entries(box).map(([name, value]) => [name, Math.round(value)]));
    leave();
    done(found);
  };

  dragging(layer, size, show);
  layer.addEventListener("keydown", (event) => keyed(event, box, size, show, search, leave));
  holder.classList.add("boxing");
  holder.append(layer);
  fill(
    controls,
    says,
    el("button", { type: "button", onclick: search }, "Search with this region"),
    el("button", { type: "button", class: "quiet", onclick: leave }, "Cancel"),
  );
  show(box);
  layer.focus();
  announce("Draw a box on the image, or move it with the arrow keys.");
}

function dragging(layer, size, show) {
  let start = null;
  const at = (event) => {
    const frame = layer.getBoundingClientRect();
    return [
      ((event.clientX - frame.left) / frame.width) * size[0],
      ((event.clientY - frame.top) / frame.height) * size[1],
    ];
  };
  layer.addEventListener("pointerdown", (event) => {
    start = at(event);
    layer.setPointerCapture(event.pointerId);
  });
  layer.addEventListener("pointermove", (event) => {
    if (!start) return;
    const now = at(event);
    const [left, top] = [Math.min(start[0], now[0]), Math.min(start[1], now[1])];
    show({ x: left, y: top, width: Math.abs(now[0] - start[0]), height: Math.abs(now[1] - start[1]) });
  });
  layer.addEventListener("pointerup", () => {
    start = null;
  });
}

function keyed(event, box, size, show, search, leave) {
  const step = Math.max(1, Math.round(Math.max(...size) / 40));
  const way = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
  if (way && event.shiftKey) show({ ...box, width: box.width + way[0], height: box.height + way[1] });
  else if (way) show({ ...box, x: box.x + way[0], y: box.y + way[1] });
  else if (event.key === "Enter") search();
  else if (event.key === "Escape") leave();
  else return;
  event.preventDefault();
}

/** A box that lies in the image and is large enough to measure. */
function inside(box, size) {
  const width = Math.min(size[0], Math.max(LEAST, box.width));
  const height = Math.min(size[1], Math.max(LEAST, box.height));
  return {
    x: Math.min(size[0] - width, Math.max(0, box.x)),
    y: Math.min(size[1] - height, Math.max(0, box.y)),
    width,
    height,
  };
}
