"""`clearfold query`: which cases of an archive look like this one, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from clearfold.cli.archives import ARCHIVE_HELP, command_line, open_archive, refuse_server, shown
from clearfold.cli.console import recorded, stderr
from clearfold.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.report import Report
    from clearfold.retrieval import Answer, Hit

PAGES = (".html", ".htm")

HOW_TO_READ = (
    "Hits are the cases nearest to the query in the coordinates of the archive's embedding, nearest first. Cases of "
    "the query's own patient are left out unless asked for.",
    "The label table says how often each label is among the hits, and how often it would be by chance: its share of "
    "all cases that could have been found. It is no diagnosis and no probability.",
    "Reasons are measured features, in their own unit. Percentiles say where query and hit stand among the cases of "
    "the archive. Features that say the same as a named one are only counted.",
)


def query(
    what: Annotated[
        str, typer.Argument(metavar="QUERY", help="An image, a table with a row of features, or a case id.")
    ],
    archive: Annotated[
        str | None, typer.Option(help=ARCHIVE_HELP, envvar="CLEARFOLD_ARCHIVE", show_envvar=False)
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many cases.")] = 10,
    where: Annotated[
        list[str] | None, typer.Option(help="Only cases with this value, such as organ=prostate; may be repeated.")
    ] = None,
    row: Annotated[str | None, typer.Option(help="For a table: the case id, or the number of the row from 0.")] = None,
    mpp: Annotated[float | None, typer.Option(help="Micrometres a pixel of the image, if it does not say.")] = None,
    own_patient: Annotated[bool, typer.Option("--own-patient", help="Also find cases of the query's patient.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="HTML page to write, with pictures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Find the cases of an archive that look like an image, a row of features or a stored case, and say why.

    The query is processed as the archive was. A warning says when it lies outside what the archive has seen.

    Examples:

    - `clearfold query new_patch.png --archive cases.clearfold -k 10`
    - `clearfold query new.csv --row 3 --archive cases.clearfold --where organ=prostate`
    - `clearfold query case_0017 --archive cases.clearfold -o answer.html`
    """
    refuse_server(what, "the query")
    if output is not None and output.suffix.lower() not in PAGES:
        raise InputError(f"The page {output.name} has no known suffix. Wanted is {' or '.join(PAGES)}.")
    with recorded() as notes, open_archive(archive) as opened, stderr().status(f"asking {shown(archive or '')}"):
        asked = _asked(opened, what, row, mpp)
        answer = opened.query(asked, k=k, where=_filter(where or []), own_patient=own_patient)
        if output is not None:
            answer_page(what, answer, notes).write(output)
    if as_json:
        print(json.dumps(as_facts(what, answer) | {"warnings": notes}, indent=2))
    else:
        _show(answer)


def _asked(archive: Any, what: str, row: str | None, mpp: float | None) -> Any:
    """What the archive is asked: a row of a table, an image with its scale, or a case id."""
    from clearfold.table import FORMATS, read_table

    path = Path(what)
    if what in archive or not path.is_file():
        return what
    if not path.name.lower().endswith(tuple(FORMATS)):
        from clearfold.images import read_image

        return read_image(path, mpp=mpp)
    frame = read_table(path).frame
    if row is not None:
        named = frame["case_id"].map(str) == row if "case_id" in frame else frame.index == -1
        chosen = frame[named]
        if chosen.empty and row.isdecimal() and int(row) < len(frame):
            chosen = frame.iloc[[int(row)]]
        if len(chosen) != 1:
            raise InputError(f"--row {row}: {path.name} has no such case and {len(frame)} rows, numbered from 0.")
        frame = chosen
    if len(frame) != 1:
        raise InputError(f"{path.name} has {len(frame)} rows; a query is one. Name it with --row.")
    return frame


def _filter(where: list[str]) -> dict[str, list[str]]:
    """column=value, several values of a column together."""
    wanted: dict[str, list[str]] = {}
    for text in where:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"--where {text} came; wanted is column=value, such as organ=prostate.")
        wanted.setdefault(name, []).append(value)
    return wanted


def as_facts(what: str, answer: Answer) -> dict[str, Any]:
    """The answer as plain values."""
    labels = json.loads(answer.labels.to_json(orient="records"))
    hits = [
        {
            "case_id": hit.case_id,
            "patient_id": hit.patient_id,
            "label": hit.label,
            "distance": hit.distance,
            "metadata": hit.metadata,
            "near": [_plain(reason) for reason in hit.reasons.near],
            "far": [_plain(reason) for reason in hit.reasons.far],
        }
        for hit in answer
    ]
    about = {"familiar": answer.familiar, "strange": answer.strange, "missing": answer.missing}
    return {"query": what, "version": answer.version, **about, "labels": labels, "hits": hits}


def _plain(reason: Any) -> dict[str, Any]:
    values = {name: getattr(reason, name) for name in reason.__dataclass_fields__}
    return {name: None if value != value else value for name, value in values.items()}


def _show(answer: Answer) -> None:
    """The answer's own text without the warning, which has been printed."""
    console = Console()
    for line in str(answer).splitlines():
        if not line.startswith("Unfamiliar: "):
            console.print(Text(line, style="dim" if line.startswith(" ") else ""), soft_wrap=True)


def _label(hit: Hit) -> str:
    return "no label" if hit.label is None else str(hit.label)


def answer_page(what: str, answer: Answer, notes: list[str]) -> Report:
    """The page of an answer: pictures, labels, and the reasons of every hit."""
    from clearfold.plot.retrieval import pictures
    from clearfold.report import Report

    page = Report(f"Which cases look like {Path(what).name}?", {"command": command_line()})
    found = answer.labels[answer.labels["hits"] > 0]
    said = ", ".join(f"{line.label} {line.share:.0%} (chance {line.chance:.0%})" for line in found.itertuples())
    page.text(f"{len(answer)} cases were found. Labels among them: {said or 'none'}.").warnings(notes)
    shown_hits = [hit for hit in answer if hit.thumbnail]
    if shown_hits:
        page.figure(pictures(shown_hits), "The hits, nearest first.", alt=f"Pictures of {len(shown_hits)} hits")
    page.heading("The hits").table(answer.frame())
    if len(answer.labels):
        page.table(answer.labels.round(3), "Labels among the labelled hits, and by chance.")
    for place, hit in enumerate(answer, start=1):
        page.heading(f"{place}. {hit.case_id} ({_label(hit)}): why")
        page.table(_reason_table(hit))
    how = [answer[0].reasons.how] if len(answer) else []
    return page.heading("How to read this").text(*HOW_TO_READ, *how)


def _reason_table(hit: Hit) -> pd.DataFrame:
    import pandas as pd

    rows = [
        {
            "": reason.side,
            "feature": f"{reason.feature}{f' ({reason.unit})' if reason.unit else ''}",
            "query": reason.query,
            "hit": reason.hit,
            "median": reason.median,
            "percentiles": reason.percentiles,
            "more like it": reason.alike or "",
            "what it is": reason.meaning,
        }
        for reason in hit.reasons
    ]
    table = pd.DataFrame(rows)
    return table if any(reason.meaning for reason in hit.reasons) else table.drop(columns="what it is", errors="ignore")
