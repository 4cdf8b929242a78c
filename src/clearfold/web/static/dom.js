// Elements, numbers and the address of the page. Text from the archive only ever becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes (`on` + event: a listener; true: an empty attribute; null or false: none) and children. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const byId = (id) => document.getElementById(id);

/** Put children in place of what was there, and show the element. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  node.hidden = false;
  return node;
}

/** Four digits, as the command line shows them. */
export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "missing";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return Number(value).toExponential(digits - 2);
  return String(Number(Number(value).toPrecision(digits)));
}

export const percent = (share) =>
  share === null || share === undefined
    ? ""
    : `${share > 0 && share < 0.095 ? number(100 * share, 2) : Math.round(100 * share)}\u00a0%`;
export const labelled = (label) => (label === null || label === undefined ? "no label" : String(label));

/** What the address asks for. */
export const params = () => new URLSearchParams(location.search);

/** An address with those parameters that are not empty. */
export function address(path, wanted) {
  const kept = Object.entries(wanted).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(kept.map(([key, value]) => [key, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

/** Change parameters of this page's address without loading it again; empty ones go. */
export function remember(changes, push = false) {
  const wanted = Object.fromEntries(params());
  const next = address(location.pathname, { ...wanted, ...changes });
  if (next === location.pathname + location.search) return;
  history[push ? "pushState" : "replaceState"](null, "", next);
}

/** Say something to those who listen instead of look. */
export function announce(text) {
  byId("status").textContent = text;
}

/** Show what went wrong, in the page; null takes it away. */
export function complain(error) {
  const box = byId("alert");
  if (error === null) {
    box.hidden = true;
    box.replaceChildren();
    return;
  }
  if (error.name === "AbortError") return;
  fill(box, el("p", {}, error.message || String(error)));
  box.scrollIntoView({ block: "nearest" });
}

/** A table with a caption; `columns` are [title, row => text or node, is it a number]. */
export function table(caption, columns, rows) {
  const head = columns.map(([title, , numeric]) => el("th", { scope: "col", class: numeric ? "number" : null }, title));
  const line = (row) =>
    columns.map(([, read, numeric], place) =>
      el(place ? "td" : "th", { scope: place ? null : "row", class: numeric ? "number" : "long" }, [read(row)].flat()),
    );
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, head)),
      el(
        "tbody",
        {},
        rows.map((row) => el("tr", {}, line(row))),
      ),
    ),
  );
}

export const featureLink = (name) => el("a", { href: address("/feature", { name }), class: "long" }, name);

/** Wait until somebody has stopped typing. */
export function calmly(action, wait = 200) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), wait);
  };
}
