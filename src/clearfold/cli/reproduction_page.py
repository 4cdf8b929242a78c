"""The report of `clearfold reproduce`: claims with verdicts in colour and words, figures like the papers', tables."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from clearfold.cli.console import fact_table
from clearfold.papers.claims import NOT_REPRODUCED, REPRODUCED, UNTESTED, Verdict, counted
from clearfold.papers.files import LONG
from clearfold.papers.references import PAPERS as REFERENCES
from clearfold.papers.reproduction import CUT, PAPERS, QUICK, Reproduction
from clearfold.report import Report

if TYPE_CHECKING:
    from collections.abc import Sequence

ACRONYMS = {"fine": "FINE", "vink": "VINK", "ose-ssl": "OSE-SSL", "bose": "BoSE", "rve": "RVE"}
NAMES = {
    paper: f"{name} ({', '.join(REFERENCES[paper].families)}, {REFERENCES[paper].journal} {REFERENCES[paper].year})"
    for paper, name in ACRONYMS.items()
}
INKS = {
    REPRODUCED: ("#1a7f37", "#fff"),
    NOT_REPRODUCED: ("#b42318", "#fff"),
    UNTESTED: ("#6e7781", "#fff"),
}
"""Ground and ink of each verdict; the word stands there too, so colour alone says nothing."""
HOW_TO_READ = (
    "A claim is a sentence, a figure or a table of the paper. Its rule stands beside it in the code and was not "
    "changed after the run, though figures of partial runs were known. There is one slack for each measure: AUC, AUPRC "
    "and accuracy .03; the Jaccard index .01 or a fifth of the printed figure; silhouette and shares .05; counts 1. An "
    "ordering holds when the whole 95 % interval of the difference is above 0. “Alike” is a difference of at most .03.",
    "Intervals are 95 % of the mean over rounds or seeds (for the Jaccard index by the jackknife). Rounds share rows: "
    "the interval says how far the figure would move with other rounds, not with other patients.",
    "“printed” is the paper's protocol as it is printed, “corrected” ours. What differs is listed for each paper. On "
    "the Swiss roll “wide” and “tight” are two readings of a neighbourhood that the paper does not print.",
    "A stand-in is a public set that takes the place of a cohort that is not public. What holds on a stand-in need not "
    "hold on the cohort, and the other way round.",
    "“not reproduced” means: not under this protocol, on these data, by this rule. It does not say why.",
)


class ClaimsReport(Report):
    """A report that can show verdicts."""

    def verdicts(self, verdicts: Sequence[Verdict]) -> ClaimsReport:
        """A table of claims, the verdict of each on its colour."""
        heads = ("claim", "where", "paper", "ours", "verdict", "rule and note")
        lines = ["".join(f"<td>{cell}</td>" for cell in _cells(verdict)) for verdict in verdicts]
        head = "".join(f'<th scope="col">{name}</th>' for name in heads)
        body = "\n".join(f"<tr>{line}</tr>" for line in lines)
        table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
        self._wide(table, f"Claims of {self._section}")
        return self


def _cells(verdict: Verdict) -> tuple[str, ...]:
    """The cells of a claim as HTML; every text is escaped."""
    row = verdict.row()
    how = "" if verdict.protocol == "–" else f"{verdict.protocol} protocol, "
    ground, ink = INKS[verdict.word]
    style = f"background:{ground};color:{ink};padding:.1rem .45rem;border-radius:.3rem;display:inline-block"
    note = ". ".join(text for text in (row["rule"] if row["rule"] != "–" else "", row["why"]) if text)
    return (
        f'<div style="min-width:12rem">{escape(row["claim"])}<br><small>{escape(how + row["data"])}</small></div>',
        escape(row["where"]),
        escape(row["printed"]),
        _lines(row["ours"]),
        f'<span style="{style}">{escape(row["verdict"])}</span>',
        f"<small>{escape(note)}</small>",
    )


def _lines(text: str) -> str:
    return "<br>".join(f'<span style="white-space:nowrap">{escape(part)}</span>' for part in text.split("; "))


def reproduction_page(found: Reproduction, command: str) -> Report:
    """The whole report."""
    import pandas as pd

    names = "five papers" if len(found.papers) > 1 else NAMES[found.papers[0]].split(" (")[0]
    page = ClaimsReport(f"Which claims of {names} hold on public data?", {"command": command})
    counts = counted(found.verdicts)
    page.text(", ".join(f"{count} {word}" for word, count in counts.items()) + " (claims times protocols).")
    page.warnings([*_cut(found), *(f"{data}: {why}" for data, why in found.missing.items())])
    if len(found.papers) > 1:
        rows = [{"paper": NAMES[paper], **counted(found.of(paper))} for paper in found.papers]
        page.table(pd.DataFrame(rows), "Verdicts of each paper, stand-ins among them.", name="verdicts")
    for paper in found.papers:
        _section(page, found, paper)
    page.heading("How to read this").text(*HOW_TO_READ)
    page.heading("What was run").table(_runs(found), "Seconds are those of one processor.", name="runs")
    facts = {"papers": list(found.papers), "quick": found.quick, "claims and protocols": len(found.verdicts)}
    facts |= {"pieces": len(found.done), "missing data": dict(found.missing)}
    return page.ending(fact_table(facts), found.papers)


def _cut(found: Reproduction) -> list[str]:
    return [QUICK, *(f"{paper}: {CUT[paper]}." for paper in found.papers)] if found.quick else []


def _section(page: ClaimsReport, found: Reproduction, paper: str) -> None:
    import pandas as pd

    from clearfold.papers.figures import drawings

    page.heading(NAMES[paper])
    page.verdicts(found.of(paper))
    for _, caption, drawing in drawings(found, paper):
        page.figure(drawing, caption)
    for one in found.done:
        if one.paper == paper:
            for title, table in one.findings.tables.items():
                if not title.endswith((*LONG, "against Jaccard")) and len(table) <= 60:
                    page.table(table.round(3), title, name=title, data=table)
    page.table(
        pd.DataFrame({"departure": PAPERS[paper].DEPARTURES}),
        "Where we depart from the paper",
        name=f"departures-{paper}",
    )


def _runs(found: Reproduction) -> Any:
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "piece": one.name,
                "settings": ", ".join(f"{name} {value}" for name, value in one.settings.items()),
                "seconds": one.seconds,
                "notes": "; ".join(
                    [*one.findings.notes, *(f"{name} ({count})" for name, count in one.warnings.items())]
                ),
            }
            for one in found.done
        ]
    )
