// A scatter of many points on a canvas: pan, zoom, point at, go from point to point, draw a lasso.

import { press, stamp } from "./stamps.js";

const ROOM = 1.08;
const STRONGEST = 400;

export class Scatter {
  /** `told` has functions: pointed(row or -1, x, y), chosen(row), lassoed(polygon). */
  constructor(canvas, told) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.told = told;
    this.tool = "move";
    this.x = this.y = new Float32Array(0);
    this.paint = { colours: [[29, 91, 150]], codes: null, shapes: false };
    this.marks = [];
    this.current = -1;
    this.lasso = [];
    this.members = null;
    new ResizeObserver(() => this.resized()).observe(canvas);
    this.listen();
  }

  /** New points; the whole of them is shown. */
  place(x, y) {
    this.x = x;
    this.y = y;
    this.fit();
  }

  fit() {
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let row = 0; row < this.x.length; row += 1) {
      if (Number.isNaN(this.x[row]) || Number.isNaN(this.y[row])) continue;
      left = Math.min(left, this.x[row]);
      right = Math.max(right, this.x[row]);
      low = Math.min(low, this.y[row]);
      high = Math.max(high, this.y[row]);
    }
    if (left > right) [left, right, low, high] = [0, 1, 0, 1];
    const wide = Math.max(right - left, 1e-12) * ROOM;
    const tall = Math.max(high - low, 1e-12) * ROOM;
    this.whole = { x: (left + right) / 2, y: (low + high) / 2, wide, tall };
    this.view = { x: this.whole.x, y: this.whole.y, zoom: 1 };
    this.draw();
  }

  // one scale for both axes: distances on the screen are distances of the embedding
  get scale() {
    const { width, height } = this.canvas;
    return this.view.zoom * Math.min(width / this.whole.wide, height / this.whole.tall);
  }

  toScreen(x, y) {
    return [
      this.canvas.width / 2 + (x - this.view.x) * this.scale,
      this.canvas.height / 2 - (y - this.view.y) * this.scale,
    ];
  }

  toData(left, top) {
    return [
      this.view.x + (left - this.canvas.width / 2) / this.scale,
      this.view.y - (top - this.canvas.height / 2) / this.scale,
    ];
  }

  zoom(factor, left = this.canvas.width / 2, top = this.canvas.height / 2) {
    const before = this.toData(left, top);
    this.view.zoom = Math.min(STRONGEST, Math.max(0.5, this.view.zoom * factor));
    const after = this.toData(left, top);
    this.view.x += before[0] - after[0];
    this.view.y += before[1] - after[1];
    this.draw();
  }

  resized() {
    const frame = this.canvas.getBoundingClientRect();
    this.ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(frame.width * this.ratio));
    this.canvas.height = Math.max(1, Math.round(frame.height * this.ratio));
    this.draw();
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      if (this.whole && this.ratio) this.drawNow();
    });
  }

  drawNow() {
    const { canvas, pen, paint } = this;
    const image = pen.createImageData(canvas.width, canvas.height);
    image.data.fill(255);
    const radius = this.radius * this.ratio;
    const stamps = [0, 1, 2, 3].map((shape) => stamp(paint.shapes ? shape : 0, radius, canvas.width));
    const { scale, view, x, y, members } = this; // read once: this loop runs for every case
    const [middle, centre] = [canvas.width / 2, canvas.height / 2];
    for (let row = 0; row < x.length; row += 1) {
      const left = middle + (x[row] - view.x) * scale;
      const top = centre - (y[row] - view.y) * scale;
      if (!(left >= 0 && top >= 0 && left < canvas.width && top < canvas.height)) continue;
      const code = paint.codes ? paint.codes[row] : 0;
      const rgb = members && !members.has(row) ? [205, 210, 216] : (paint.colours[code] ?? [168, 174, 182]);
      press(image, stamps[code < 0 ? 0 : code % 4], Math.round(left), Math.round(top), rgb);
    }
    pen.putImageData(image, 0, 0);
    this.drawMarks();
  }

  /** Few points are large, many are small. */
  get radius() {
    return Math.min(5, Math.max(1.2, 40 / Math.sqrt(this.x.length + 1)));
  }

  drawMarks() {
    const { pen, ratio } = this;
    pen.lineWidth = 2 * ratio;
    pen.font = `600 ${12 * ratio}px system-ui, sans-serif`;
    for (const mark of this.marks) {
      const [left, top] = this.toScreen(...mark.point);
      this.ring(left, top, mark.strong ? 11 : 8, mark.strong ? "#10171f" : "#8a4b00");
      if (mark.strong) this.ring(left, top, 15, "#10171f");
      pen.lineWidth = 4 * ratio;
      pen.strokeStyle = "#ffffff";
      pen.fillStyle = mark.strong ? "#10171f" : "#6b3a00";
      pen.strokeText(mark.text, left + 12 * ratio, top - 8 * ratio);
      pen.fillText(mark.text, left + 12 * ratio, top - 8 * ratio);
    }
    if (this.current >= 0) this.ring(...this.toScreen(this.x[this.current], this.y[this.current]), 9, "#1d5b96");
    if (this.lasso.length < 2) return;
    pen.beginPath();
    for (const point of this.lasso) pen.lineTo(...this.toScreen(...point));
    pen.closePath();
    pen.fillStyle = "rgb(29 91 150 / 10%)";
    pen.fill();
    pen.lineWidth = 2 * ratio;
    pen.strokeStyle = "#1d5b96";
    pen.stroke();
  }

  ring(left, top, radius, colour) {
    const { pen, ratio } = this;
    pen.beginPath();
    pen.arc(left, top, radius * ratio, 0, 2 * Math.PI);
    pen.lineWidth = 2.5 * ratio;
    pen.strokeStyle = colour;
    pen.stroke();
  }

  /** The row nearest to a place on the screen, within a reach in pixels. */
  nearest(left, top, reach = 12) {
    const { x, y, scale } = this;
    const [across, up] = this.toData(left, top);
    let best = -1;
    let least = ((reach * this.ratio) / scale) ** 2;
    for (let row = 0; row < x.length; row += 1) {
      const distance = (x[row] - across) ** 2 + (y[row] - up) ** 2;
      if (distance < least) {
        best = row;
        least = distance;
      }
    }
    return best;
  }

  /** The nearest row in a direction, within 45 degrees of it. */
  next(across, down) {
    const [left, top] =
      this.current < 0
        ? [this.canvas.width / 2, this.canvas.height / 2]
        : this.toScreen(this.x[this.current], this.y[this.current]);
    if (this.current < 0) return this.nearest(left, top, 1e6);
    let [best, least] = [this.current, Infinity];
    for (let row = 0; row < this.x.length; row += 1) {
      const [x, y] = this.toScreen(this.x[row], this.y[row]);
      const along = (x - left) * across + (y - top) * down;
      const aside = Math.abs((x - left) * down) + Math.abs((y - top) * across);
      if (along > 0.5 && aside <= along && along + 2 * aside < least) [best, least] = [row, along + 2 * aside];
    }
    return best;
  }

  listen() {
    const { canvas } = this;
    const at = (event) => {
      const frame = canvas.getBoundingClientRect();
      return [(event.clientX - frame.left) * this.ratio, (event.clientY - frame.top) * this.ratio];
    };
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      drag = { from: at(event), last: at(event), lasso: this.tool === "lasso" || event.shiftKey, moved: false };
      if (drag.lasso) this.lasso = [this.toData(...drag.from)];
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = at(event);
      if (!drag) return this.told.pointed(this.nearest(...now), now[0] / this.ratio, now[1] / this.ratio);
      drag.moved ||= Math.hypot(now[0] - drag.from[0], now[1] - drag.from[1]) > 4 * this.ratio;
      if (drag.lasso) this.lasso.push(this.toData(...now));
      else if (drag.moved) {
        this.view.x -= (now[0] - drag.last[0]) / this.scale;
        this.view.y += (now[1] - drag.last[1]) / this.scale;
      }
      drag.last = now;
      return this.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      const ended = drag;
      drag = null;
      if (ended?.lasso && ended.moved) this.told.lassoed(this.lasso);
      else if (ended && !ended.moved) {
        const row = this.nearest(...at(event));
        if (row >= 0) this.told.chosen(row);
      }
    });
    canvas.addEventListener("pointerleave", () => this.told.pointed(-1, 0, 0));
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY / 400), ...at(event));
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.keyed(event));
  }

  keyed(event) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (way) this.go(this.next(...way));
    else if (event.key === "Enter" && this.current >= 0) this.told.chosen(this.current, true);
    else if (event.key === "+" || event.key === "=") this.zoom(1.4);
    else if (event.key === "-") this.zoom(1 / 1.4);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  }

  /** Make a row the current one and bring it into view. */
  go(row) {
    this.current = row;
    if (row < 0) return;
    const [left, top] = this.toScreen(this.x[row], this.y[row]);
    if (left < 0 || top < 0 || left > this.canvas.width || top > this.canvas.height)
      [this.view.x, this.view.y] = [this.x[row], this.y[row]];
    const shown = this.toScreen(this.x[row], this.y[row]);
    this.told.pointed(row, shown[0] / this.ratio, shown[1] / this.ratio);
    this.draw();
  }
}
