"""One self-contained HTML page: nothing is loaded from outside, no script runs, every text is escaped.

Report("Map of 569 cases").text("What was done.").figure(ax, alt="...").write("report.html")
"""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from html import escape
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from clearfold import errors
from clearfold.papers.references import SOFTWARE, references
from clearfold.plot import to_svg
from clearfold.table import PathLike, atomic_write
from clearfold.table.copies import NOTHING, four_digits, plain, slug, write_copies

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 200
WARNING = re.compile(r"(\w+Warning): (.*)", re.DOTALL)
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
@media (max-width: 45rem) {
  table { min-width: 0; } .drawing { overflow-x: auto; } .drawing svg { max-width: none; min-width: 30rem; }
}
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

    `parameters` are what a reader needs to repeat the work; they stand in the footer with the versions. The tables that
    the page shows, and others that stand behind it, are in `tables` by name; `write_tables` makes files of them.
    """

    def __init__(self, title: str, parameters: Mapping[str, Any] | None = None) -> None:
        self.title = title
        self.parameters = dict(parameters or {})
        self.tables: dict[str, pd.DataFrame] = {}
        self._parts: list[str] = []
        self._section = "table"
        self._labels: Counter[str] = Counter()

    def heading(self, text: str) -> Report:
        """Begin a section."""
        self._section = text
        return self._add(f"<h2>{escape(text)}</h2>")

    def text(self, *paragraphs: str) -> Report:
        """Plain paragraphs."""
        return self._add("\n".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs))

    def items(self, texts: Iterable[str]) -> Report:
        """A list."""
        lines = "\n".join(f"<li>{escape(text)}</li>" for text in texts)
        return self._add(f"<ul>\n{lines}\n</ul>")

    def table(
        self, frame: pd.DataFrame, caption: str = "", *, name: str = "", data: pd.DataFrame | None = None
    ) -> Report:
        """A table without its index; floats have four digits, rows after the first 200 are counted.

        name : of its files, that of the section if none; data : what the files hold, if it is more than the page shows
        """
        self.remember(name or self._section, frame if data is None else data)
        if len(frame) > MOST_ROWS:
            caption = f"{caption} The first {MOST_ROWS} of {len(frame)} rows are shown.".strip()
        columns = [column for _, column in frame.head(MOST_ROWS).items()]
        align = [' class="number"' if pd.api.types.is_numeric_dtype(c.dtype) else "" for c in columns]
        names = [f'<th scope="col"{a}>{escape(str(c.name))}</th>' for c, a in zip(columns, align, strict=True)]
        cells = [[f"<td{a}>{escape(_cell(v))}</td>" for v in c] for c, a in zip(columns, align, strict=True)]
        body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
        above = f"<caption>{escape(caption)}</caption>\n" if caption else ""
        return self._wide(
            f"<table>\n{above}<thead><tr>{''.join(names)}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>",
            caption or self._section,
        )

    def remember(self, name: str, frame: pd.DataFrame) -> Report:
        """A table that `write_tables` writes though the page does not show it, such as the points of a curve."""
        name = slug(name)[:80] or "table"
        names = [name, *(f"{name}-{number}" for number in range(2, len(self.tables) + 2))]
        self.tables[next(free for free in names if free not in self.tables)] = frame
        return self

    def figure(self, figure: Figure | Axes, caption: str = "", *, alt: str = "") -> Report:
        """A drawing; `alt` says what it shows to those who cannot see it (the caption, if not given)."""
        below = f"\n<figcaption>{escape(caption)}</figcaption>" if caption else ""
        drawing = f'<div class="drawing" tabindex="0">\n{_inline(to_svg(figure), alt or caption or self.title)}\n</div>'
        return self._add(f"<figure>\n{drawing}{below}\n</figure>")

    def warnings(self, messages: Iterable[str]) -> Report:
        """What a reader should know before believing the rest; nothing is added when there are none."""
        items = "\n".join(f"<li>{escape(in_words(message))}</li>" for message in messages)
        if not items:
            return self
        return self._add(f'<aside class="warnings"><strong>Please note</strong>\n<ul>\n{items}\n</ul></aside>')

    def ending(self, facts: pd.DataFrame, methods: Iterable[str]) -> Report:
        """How every report ends: what was done, and whom to cite for the methods (see `papers.references`).

        facts : DataFrame what, value; the command and the versions are added to it
        """
        self.heading("What was done").table(self._everything(facts), name="what-was-done")
        cited = [SOFTWARE.format(version=versions()["clearfold"]), *map(str, references(methods))]
        self.heading("How to cite").text("If this goes into a publication, please cite:")
        return self.items(cited).remember("how-to-cite", pd.DataFrame({"reference": cited}))

    def html(self) -> str:
        """The whole page."""
        return PAGE.format(title=escape(self.title), style=STYLE, body="\n".join(self._parts), footer=self._footer())

    def write(self, path: PathLike) -> Path:
        """Write the page; a file that was there stays as it was unless the new one is whole."""
        page = self.html()
        with atomic_write(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
        return Path(path)

    def write_tables(self, folder: PathLike) -> list[Path]:
        """Every table as name.csv, name.json and name.md in a folder, which is made if it is not there."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        return [path for name, frame in self.tables.items() for path in write_copies(frame, folder / name)]

    def _add(self, part: str) -> Report:
        self._parts.append(part)
        return self

    def _wide(self, part: str, label: str) -> Report:
        """Something that may be wider than the screen: it scrolls, also by keys, and no two have one name."""
        self._labels[label] += 1
        label = label if self._labels[label] == 1 else f"{label} ({self._labels[label]})"
        return self._add(f'<div class="wide" tabindex="0" role="region" aria-label="{escape(label)}">\n{part}\n</div>')

    def _everything(self, facts: pd.DataFrame) -> pd.DataFrame:
        own = {**self.parameters, "versions": ", ".join(f"{name} {number}" for name, number in versions().items())}
        rows = pd.DataFrame({"what": list(own), "value": [str(value) for value in own.values()]})
        return pd.concat([facts, rows], ignore_index=True)

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


def in_words(note: str) -> str:
    """A warning as a sentence, its class named at the end so that it can be looked up; other text as it is.

    >>> in_words("DisconnectedGraphWarning: in 3 of 10 rounds")
    'The neighbour graph fell apart and was bridged: in 3 of 10 rounds (DisconnectedGraphWarning)'
    """
    found = WARNING.fullmatch(note)
    meaning = getattr(errors, found[1], None) if found else None
    if found is None or meaning is None:
        return note
    return f"{(meaning.__doc__ or '').strip().rstrip('.')}: {found[2].strip()} ({found[1]})"


def _cell(value: Any) -> str:
    """A missing value is a dash, a float has four digits."""
    value = plain(value)
    return NOTHING if value is None else four_digits(value) if isinstance(value, float) else str(value)


def _inline(svg: str, alt: str) -> str:
    """An SVG inside HTML needs no namespaces, and is one image to a screen reader."""
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href=", "href=")
    return svg.strip().replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1)
