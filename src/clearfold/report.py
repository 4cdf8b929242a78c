"""One self-contained HTML page: nothing is loaded from outside, no script runs, every text is escaped.

Report("Map of 569 cases").text("What was done.").figure(ax, alt="...").write("report.html")
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from html import escape
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clearfold.plot import to_svg
from clearfold.table import PathLike, atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 200
PACKAGES = ("clearfold", "numpy", "scipy", "scikit-learn", "pandas", "matplotlib")

STYLE = """
:root { color-scheme: light dark;
  --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --paper: #fff; --warn: #fff4d6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #a3abb5; --line: #3d444d; --paper: #15181c; --warn: #3b3012; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 3rem; color: var(--ink);
  background: var(--paper);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 1.25rem; }
h2 { font-size: 1.25rem; margin: 2.25rem 0 .5rem; }
p { margin: .5rem 0; max-width: 46rem; white-space: pre-line; }
figure { margin: 1.25rem 0; }
figure svg { display: block; max-width: 100%; height: auto; background: #fff; border-radius: .4rem; }
figcaption, caption { color: var(--soft); font-size: .9rem; text-align: left; padding: .4rem 0; }
figcaption { max-width: 46rem; }
.wide { overflow-x: auto; margin: 1.25rem 0; }
table { border-collapse: collapse; min-width: 26rem; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
thead th { border-bottom: 2px solid var(--line); white-space: nowrap; }
th.number, td.number { text-align: right; }
.warnings { background: var(--warn); border-left: .3rem solid #d29922; padding: .6rem 1rem;
  margin: 1.25rem 0; }
.warnings ul { margin: .3rem 0; padding-left: 1.2rem; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); color: var(--soft);
  font-size: .85rem; }
footer dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .5rem 0; }
footer dd { margin: 0; overflow-wrap: anywhere; }
@media print {
  :root { --ink: #000; --soft: #444; --line: #bbb; --paper: #fff; --warn: #fff; color-scheme: light; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  figure, tr, .warnings { break-inside: avoid; } h2 { break-after: avoid; } .wide { overflow: visible; }
}
"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1></header>
<main>
{body}
</main>
<footer>
{footer}
</footer>
</body>
</html>
"""


class Report:
    """Parts of a page in the order they were added; every method returns the report, `write` makes the file.

    `parameters` are what a reader needs to repeat the work; they stand in the footer with the versions.
    """

    def __init__(self, title: str, parameters: Mapping[str, Any] | None = None) -> None:
        self.title = title
        self.parameters = dict(parameters or {})
        self._parts: list[str] = []

    def heading(self, text: str) -> Report:
        """Begin a section."""
        return self._add(f"<h2>{escape(text)}</h2>")

    def text(self, *paragraphs: str) -> Report:
        """Plain paragraphs."""
        return self._add("\n".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs))

    def table(self, frame: pd.DataFrame, caption: str = "") -> Report:
        """A table without its index; floats have four digits, rows after the first 200 are counted."""
        if len(frame) > MOST_ROWS:
            caption = f"{caption} The first {MOST_ROWS} of {len(frame)} rows are shown.".strip()
        columns = [column for _, column in frame.head(MOST_ROWS).items()]
        align = [' class="number"' if pd.api.types.is_numeric_dtype(c.dtype) else "" for c in columns]
        names = [f'<th scope="col"{a}>{escape(str(c.name))}</th>' for c, a in zip(columns, align, strict=True)]
        cells = [[f"<td{a}>{escape(_cell(v))}</td>" for v in c] for c, a in zip(columns, align, strict=True)]
        body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
        above = f"<caption>{escape(caption)}</caption>\n" if caption else ""
        return self._add(
            f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption or "table")}">\n'
            f"<table>\n{above}<thead><tr>{''.join(names)}</tr></thead>\n"
            f"<tbody>\n{body}\n</tbody>\n</table>\n</div>"
        )

    def figure(self, figure: Figure | Axes, caption: str = "", *, alt: str = "") -> Report:
        """A drawing; `alt` says what it shows to those who cannot see it (the caption, if not given)."""
        below = f"\n<figcaption>{escape(caption)}</figcaption>" if caption else ""
        return self._add(f"<figure>\n{_inline(to_svg(figure), alt or caption or self.title)}{below}\n</figure>")

    def warnings(self, messages: Iterable[str]) -> Report:
        """What a reader should know before believing the rest; nothing is added when there are none."""
        items = "\n".join(f"<li>{escape(message)}</li>" for message in messages)
        if not items:
            return self
        return self._add(f'<aside class="warnings"><strong>Please note</strong>\n<ul>\n{items}\n</ul></aside>')

    def html(self) -> str:
        """The whole page."""
        return PAGE.format(title=escape(self.title), style=STYLE, body="\n".join(self._parts), footer=self._footer())

    def write(self, path: PathLike) -> Path:
        """Write the page; a file that was there stays as it was unless the new one is whole."""
        page = self.html()
        with atomic_write(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
        return Path(path)

    def _add(self, part: str) -> Report:
        self._parts.append(part)
        return self

    def _footer(self) -> str:
        facts = {
            "made": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %z"),
            "with": ", ".join(f"{name} {version}" for name, version in versions().items()),
            **self.parameters,
        }
        items = "\n".join(f"<dt>{escape(str(k))}</dt><dd>{escape(str(v))}</dd>" for k, v in facts.items())
        return f"<dl>\n{items}\n</dl>"


def versions() -> dict[str, str]:
    """What computed this: package -> version."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "(not installed)"
    return {**found, "Python": platform.python_version()}


def _cell(value: Any) -> str:
    """A missing value is a dash, a float has four digits."""
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _inline(svg: str, alt: str) -> str:
    """An SVG inside HTML needs no namespaces, and is one image to a screen reader."""
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href=", "href=")
    return svg.strip().replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1)
