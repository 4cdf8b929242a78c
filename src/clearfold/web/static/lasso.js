// Which points a lasso holds, and how a lasso is written in an address.

const MOST_CORNERS = 40;

/** Rows of x and y that lie inside a polygon of [x, y]. */
export function inside(polygon, x, y) {
  const found = [];
  for (let row = 0; row < x.length; row += 1) if (holds(polygon, x[row], y[row])) found.push(row);
  return found;
}

/** As few corners, with as few digits, as show its form. */
export function simplified(polygon) {
  const step = Math.max(1, Math.ceil(polygon.length / MOST_CORNERS));
  return polygon
    .filter((_, place) => place % step === 0)
    .map((point) => point.map((value) => Number(value.toPrecision(4))));
}

export const packed = (polygon) => polygon.map((point) => point.join("_")).join("~");

/** The polygon of an address; null when there is none. */
export function unpacked(text) {
  const corners = (text ?? "").split("~").map((point) => point.split("_").map(Number));
  return corners.length > 2 && corners.flat().every(Number.isFinite) ? corners : null;
}

/** Whether a polygon holds a point: a ray to the right crosses its sides an odd number of times. */
function holds(polygon, x, y) {
  let odd = false;
  for (let here = 0, before = polygon.length - 1; here < polygon.length; before = here, here += 1) {
    const [x1, y1] = polygon[here];
    const [x2, y2] = polygon[before];
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) odd = !odd;
  }
  return odd;
}
