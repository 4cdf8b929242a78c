"""The measured tables of the documentation: written between markers from a summary, never by hand.

`python -m clearfold.papers.pages docs/papers/results/full.json docs/papers.md docs/papers/*.md` rewrites what stands
between

    <!-- begin claims fine -->      the claims of a paper with verdicts
    <!-- begin table TITLE -->      a table of the run
    <!-- begin departures fine -->  where we depart from a paper
    <!-- begin count -->            how many verdicts of each kind
    <!-- begin run -->              what was run

and the matching `<!-- end -->`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clearfold.errors import InputError
from clearfold.papers.files import markdown

BLOCK = re.compile(r"(<!-- begin (claims|table|run|count|departures)( [^>]*?)? -->\n).*?(<!-- end -->)", re.DOTALL)
CLAIM_COLUMNS = ("claim", "where", "printed", "data", "protocol", "ours", "verdict", "why")
MARKS = {"reproduced": "✓", "not reproduced": "✗", "cannot be tested here": "–"}


def page(text: str, summary: Mapping[str, Any]) -> str:
    """A page with its marked parts written anew."""

    def part(match: re.Match[str]) -> str:
        kind, name = match[2], (match[3] or "").strip()
        return f"{match[1]}\n{_PARTS[kind](summary, name)}\n{match[4]}"

    return BLOCK.sub(part, text)


def _claims(summary: Mapping[str, Any], paper: str) -> str:
    rows = [
        [_verdict(claim[name]) if name == "verdict" else claim[name] for name in CLAIM_COLUMNS]
        for claim in summary["claims"]
        if claim["paper"] == paper
    ]
    return markdown(["claim", "where", "paper", "data", "protocol", "ours", "verdict", "note"], rows)


def _verdict(word: str) -> str:
    mark = next(mark for name, mark in MARKS.items() if word.startswith(name))
    return f"{mark} **{word}**"


def _table(summary: Mapping[str, Any], title: str) -> str:
    if title not in summary["tables"]:
        raise InputError(f"The summary has no table {title!r}. It has: {'; '.join(summary['tables'])}.")
    table = summary["tables"][title]
    return markdown(table["columns"], table["rows"])


def _count(summary: Mapping[str, Any], name: str) -> str:
    papers = list(dict.fromkeys(claim["paper"] for claim in summary["claims"]))
    rows = []
    for paper in papers:
        words = [claim["verdict"] for claim in summary["claims"] if claim["paper"] == paper]
        exact = [sum(word == wanted for word in words) for wanted in ("reproduced", "not reproduced")]
        rows.append([
            paper, *exact,
            sum(word == "reproduced on a stand-in" for word in words),
            sum(word == "not reproduced on a stand-in" for word in words),
            sum(word == "cannot be tested here" for word in words),
        ])  # fmt: skip
    heads = ["paper", "reproduced", "not", "reproduced on a stand-in", "not, on a stand-in", "cannot be tested here"]
    return markdown(heads, rows)


def _run(summary: Mapping[str, Any], name: str) -> str:
    how = "`clearfold reproduce all --quick`" if summary["quick"] else "`clearfold reproduce all`"
    with_ = ", ".join(f"{package} {version}" for package, version in summary["versions"].items())
    seconds = sum(piece["seconds"] for piece in summary["pieces"])
    return f"Written by {how} with {with_}: {len(summary['pieces'])} pieces, {seconds:.0f} seconds of one processor.\n"


def _departures(summary: Mapping[str, Any], paper: str) -> str:
    from clearfold.papers.reproduction import PAPERS

    return "".join(f"- {text}\n" for text in PAPERS[paper].DEPARTURES)


_PARTS = {"departures": _departures, "claims": _claims, "table": _table, "run": _run, "count": _count}


def main(arguments: list[str]) -> None:
    """Rewrite pages from a summary."""
    if len(arguments) < 2:
        raise InputError("wanted are a summary.json and at least one page of Markdown.")
    content = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    for path in map(Path, arguments[1:]):
        old = path.read_text(encoding="utf-8")
        new = page(old, content)
        if new != old:
            path.write_text(new, encoding="utf-8")
            print(f"written: {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
