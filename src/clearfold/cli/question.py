"""What a ranking is to explain, read from the columns of a table: a label, a value or a censored time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearfold.errors import InputError, TableError

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.table import Table


@dataclass(frozen=True)
class Columns:
    """The options that name columns."""

    label: str | None = None
    time: str | None = None
    event: str | None = None
    """A column of 1 and 0, or `column=value` where that value means that it happened."""
    group: str | None = None
    case: str | None = None
    ignore: Sequence[str] = ()


@dataclass(frozen=True)
class Question:
    """The cases with a known outcome, and the outcome."""

    cases: Table
    y: Any
    """A column of labels or values, or two columns, time and event."""
    name: str
    kind: str
    """`label`, `value` or `censored`."""
    parts: dict[str, int]
    """Samples of each class, or with and without the event; empty for values."""
    without: int
    """Rows that were left out because their outcome is not known."""

    @property
    def colours(self) -> pd.Series[Any]:
        """What colours the map."""
        if self.kind != "censored":
            return self.y
        return self.y["event"].map({1: "event", 0: "censored"}).rename(self.name)


def read_question(path: Path, columns: Columns, drop_missing: bool) -> Question:
    """The table without rows of unknown outcome and, if asked, without missing values; errors name the option."""
    import numpy as np

    from clearfold.importance.outcome import read_outcome

    cases, happened = _read(path, columns)
    censored = _is_censored(cases, columns)
    y: Any = _time_and_event(cases, happened) if censored else _label(cases)
    known: Any = ~np.asarray(y.isna()).reshape(len(y), -1).any(axis=1)
    if not known.any():
        raise TableError(f"{path.name}: no row has an outcome. Check the column.")
    cases = replace(cases, frame=cases.frame.loc[known])
    cases = cases.complete() if drop_missing else cases
    y = y.loc[cases.frame.index]
    y = y.astype(float) if censored else _whole(y)
    outcome = read_outcome(y, len(y), "censored" if censored else "auto")
    counts = np.bincount([] if outcome.codes is None else outcome.codes, minlength=len(outcome.names))
    name = " and ".join([cases.roles["time"], columns.event or cases.roles["event"]]) if censored else str(y.name)
    parts = {name: int(count) for name, count in zip(outcome.names, counts, strict=True)}
    return Question(cases, y, name, outcome.kind, parts, int((~known).sum()))


def _read(path: Path, columns: Columns) -> tuple[Table, pd.Series[Any] | None]:
    """The table and, when the event is given as column=value, that column as 1, 0 or missing."""
    from clearfold.table import read_table

    event, _, value = (columns.event or "").partition("=")
    if columns.label and (columns.time or columns.event):
        raise InputError("Give --label, or --time and --event: a ranking explains one outcome.")
    roles = {"label": columns.label, "time": columns.time, "patient_id": columns.group, "case_id": columns.case}
    if not value:
        return read_table(path, event=event or None, ignore=columns.ignore, **roles), None
    cases = read_table(path, ignore=[*columns.ignore, event], **roles)
    texts = cases.frame[event].map(str, na_action="ignore")
    if not (texts == value).any():
        seen = ", ".join(map(repr, sorted(texts.dropna().unique())[:5]))
        raise InputError(f"--event {columns.event}: no row of {event!r} is {value!r}; its values are {seen}.")
    happened = (texts == value).astype(float).where(texts.notna())
    return replace(cases, ignored=cases.ignored | {event: "the event"}), happened


def _is_censored(cases: Table, columns: Columns) -> bool:
    """What is asked for goes before what the table has; a label goes before a time."""
    if columns.label or ("label" in cases.roles and not (columns.time or columns.event)):
        return False
    has_event = "event" in cases.roles or "=" in (columns.event or "")
    if "time" in cases.roles and has_event:
        return True
    if columns.time or columns.event:
        missing = "--event, the column that is 1 where it happened" if has_event is False else "--time"
        raise InputError(f"A censored time wants two columns. Give {missing} too.")
    raise InputError("No outcome was named. Give --label NAME, or --time NAME and --event NAME.")


def _label(cases: Table) -> pd.Series[Any]:
    """The label; -1 beside two or more others means unknown, as everywhere in clearfold."""
    y = cases.frame[cases.roles["label"]]
    unknown = y == -1
    return y.mask(unknown) if unknown.any() and 2 < y.nunique() <= 20 else y


def _time_and_event(cases: Table, happened: pd.Series[Any] | None) -> pd.DataFrame:
    import pandas as pd

    event = cases.frame[cases.roles["event"]] if happened is None else happened
    both = {"time": cases.frame[cases.roles["time"]], "event": event}
    return pd.DataFrame({name: pd.to_numeric(column.astype(object)) for name, column in both.items()})


def _whole(y: pd.Series[Any]) -> pd.Series[Any]:
    """Classes 0 and 1 that a gap had turned into 0.0 and 1.0."""
    return y.astype(int) if y.dtype.kind == "f" and (y == y.round()).all() else y
