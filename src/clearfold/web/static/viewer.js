// A slide on a canvas: tiles of the level that fits the zoom, over those of coarser levels until they come.

import { address } from "./dom.js";

const KEPT = 400;
const LOADING = 6;

export class Viewer {
  /** `slide` as the API describes it; `moved` is called when the view has changed; `overlay(pen, toScreen)` draws over the tissue. */
  constructor(canvas, slide, { moved, overlay }) {
    Object.assign(this, { canvas, slide, moved, overlay });
    this.pen = canvas.getContext("2d");
    this.tiles = new Map();
    this.queue = [];
    this.loading = 0;
    this.boxing = false;
    this.box = null;
    this.ratio = window.devicePixelRatio || 1;
    new ResizeObserver(() => this.resized()).observe(canvas);
    this.resized();
    this.listen();
  }

  /** Show x, y (pixels of the slide) in the middle, `zoom` screen pixels for a pixel of the slide. */
  go(x, y, zoom) {
    const { width, height } = this.slide;
    this.zoom = Math.min(8, Math.max(this.least, zoom));
    this.x = Math.min(width, Math.max(0, x));
    this.y = Math.min(height, Math.max(0, y));
    this.draw();
    this.moved();
  }

  fit() {
    this.go(this.slide.width / 2, this.slide.height / 2, this.least);
  }

  get least() {
    return Math.min(this.canvas.width / this.slide.width, this.canvas.height / this.slide.height) / this.ratio;
  }

  get scale() {
    return this.zoom * this.ratio;
  }

  /** The part of the slide in view, in its own pixels. */
  get region() {
    const wide = this.canvas.width / this.scale;
    const tall = this.canvas.height / this.scale;
    const left = Math.max(0, this.x - wide / 2);
    const top = Math.max(0, this.y - tall / 2);
    const right = Math.min(this.slide.width, this.x + wide / 2);
    const bottom = Math.min(this.slide.height, this.y + tall / 2);
    return {
      x: Math.round(left),
      y: Math.round(top),
      width: Math.round(right - left),
      height: Math.round(bottom - top),
    };
  }

  /** What somebody asks about: the box that was drawn, else all that is in view. */
  get wanted() {
    return this.box ?? this.region;
  }

  toSlide(left, top) {
    const x = this.x + (left * this.ratio - this.canvas.width / 2) / this.scale;
    const y = this.y + (top * this.ratio - this.canvas.height / 2) / this.scale;
    return [Math.min(this.slide.width, Math.max(0, x)), Math.min(this.slide.height, Math.max(0, y))];
  }

  toScreen(x, y) {
    return [this.canvas.width / 2 + (x - this.x) * this.scale, this.canvas.height / 2 + (y - this.y) * this.scale];
  }

  resized() {
    const frame = this.canvas.getBoundingClientRect();
    this.canvas.width = Math.max(1, Math.round(frame.width * this.ratio));
    this.canvas.height = Math.max(1, Math.round(frame.height * this.ratio));
    if (this.zoom) this.draw();
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.drawNow();
    });
  }

  drawNow() {
    const { pen, canvas, slide } = this;
    pen.fillStyle = "#eef1f4";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    const finest = slide.levels - 1;
    const level = Math.min(finest, Math.max(0, Math.ceil(finest + Math.log2(this.scale))));
    this.queue = [];
    const coarse = Math.max(0, Math.min(level, Math.ceil(Math.log2(slide.tile))));
    for (const each of new Set([coarse, Math.max(coarse, level - 2), level])) this.drawLevel(each);
    this.queue.reverse();
    this.load();
    pen.imageSmoothingEnabled = true;
    this.overlay(pen, (x, y) => this.toScreen(x, y));
  }

  drawLevel(level) {
    const { slide, region } = this;
    const side = slide.tile * 2 ** (slide.levels - 1 - level);
    const [first, last] = [Math.floor(region.x / side), Math.ceil((region.x + region.width) / side)];
    const [top, bottom] = [Math.floor(region.y / side), Math.ceil((region.y + region.height) / side)];
    for (let row = top; row < bottom; row += 1) {
      for (let column = first; column < last; column += 1) this.drawTile(level, column, row, side);
    }
  }

  drawTile(level, column, row, side) {
    const { pen, slide } = this;
    const name = `${level}/${column}/${row}`;
    const image = this.tiles.get(name);
    if (!image) {
      this.queue.push({ name, level, column, row });
      return;
    }
    if (image === "coming") return;
    const [left, top] = this.toScreen(column * side, row * side);
    const [right, bottom] = this.toScreen(
      Math.min(slide.width, (column + 1) * side),
      Math.min(slide.height, (row + 1) * side),
    );
    pen.drawImage(
      image,
      Math.round(left),
      Math.round(top),
      Math.round(right) - Math.round(left),
      Math.round(bottom) - Math.round(top),
    );
  }

  load() {
    while (this.loading < LOADING && this.queue.length) {
      const { name, level, column, row } = this.queue.pop();
      if (this.tiles.has(name)) continue;
      this.tiles.set(name, "coming");
      this.loading += 1;
      const image = new Image();
      const ended = (found) => {
        this.loading -= 1;
        if (found) this.tiles.set(name, image);
        while (this.tiles.size > KEPT) this.tiles.delete(this.tiles.keys().next().value);
        this.draw();
      };
      image.onload = () => ended(true);
      image.onerror = () => ended(false);
      image.src = address("/api/v1/slide/tile", { id: this.slide.id, level, column, row });
    }
    this.canvas.dataset.loading = String(this.loading + this.queue.length);
  }

  listen() {
    const { canvas } = this;
    const pointers = new Map();
    let corner = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      if (this.boxing || event.shiftKey) corner = this.toSlide(event.offsetX, event.offsetY);
      else pointers.set(event.pointerId, [event.clientX, event.clientY]);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (corner) this.drawBox(corner, this.toSlide(event.offsetX, event.offsetY));
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const now = [event.clientX, event.clientY];
      pointers.set(event.pointerId, now);
      const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      let zoom = this.zoom;
      if (others.length)
        zoom *=
          Math.hypot(now[0] - others[0][0], now[1] - others[0][1]) /
          Math.max(1, Math.hypot(before[0] - others[0][0], before[1] - others[0][1]));
      this.go(
        this.x - (now[0] - before[0]) / this.zoom / pointers.size,
        this.y - (now[1] - before[1]) / this.zoom / pointers.size,
        zoom,
      );
    });
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, (event) => {
        pointers.delete(event.pointerId);
        corner = null;
      });
    }
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoomAt(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.keyed(event));
  }

  drawBox(one, other) {
    const [left, top] = [Math.min(one[0], other[0]), Math.min(one[1], other[1])];
    const [width, height] = [Math.abs(one[0] - other[0]), Math.abs(one[1] - other[1])];
    this.box =
      width * height < 64
        ? null
        : { x: Math.round(left), y: Math.round(top), width: Math.round(width), height: Math.round(height) };
    this.draw();
    this.moved();
  }

  /** Zoom so that the place under the pointer stays. */
  zoomAt(factor, left, top) {
    const frame = this.canvas.getBoundingClientRect();
    const [across, down] = [(left ?? frame.width / 2) - frame.width / 2, (top ?? frame.height / 2) - frame.height / 2];
    const zoom = Math.min(8, Math.max(this.least, this.zoom * factor));
    this.go(this.x + across / this.zoom - across / zoom, this.y + down / this.zoom - down / zoom, zoom);
  }

  keyed(event) {
    const step = 120 / this.zoom;
    const way = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    if (way) this.go(this.x + way[0], this.y + way[1], this.zoom);
    else if (event.key === "+" || event.key === "=") this.zoomAt(1.5);
    else if (event.key === "-") this.zoomAt(1 / 1.5);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  }
}
