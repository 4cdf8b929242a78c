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
    if columns.label and (columns.time or columns.event):
        raise InputError("Give --label, or --time and --event: a ranking explains one outcome.")
    cases, happened = _read(path, columns)
    return _question(path.name, cases, happened if _is_censored(cases, columns) else None, drop_missing)


def read_questions(path: Path, columns: Columns, drop_missing: bool) -> tuple[Question, Question | None]:
    """What a ranking is to explain, the label before the time; and the censored time, if the table has one."""
    cases, happened = _read(path, columns)
    timed = None
    if columns.time or columns.event or happened is not None:
        _is_censored(cases, replace(columns, label=None))  # half a pair is an error
        timed = _question(path.name, cases, happened, drop_missing)
    if timed is not None and "label" not in cases.roles:
        return timed, timed
    _is_censored(cases, replace(columns, time=None, event=None))
    return _question(path.name, cases, None, drop_missing), timed


def _question(name: str, cases: Table, happened: pd.Series[Any] | None, drop_missing: bool) -> Question:
    """Of one outcome: the time with what happened, or, without that, the label."""
    import numpy as np

    from clearfold.importance.outcome import read_outcome

    censored = happened is not None
    y: Any = _label(cases) if happened is None else _time_and_event(cases, happened)
    known: Any = ~np.asarray(y.isna()).reshape(len(y), -1).any(axis=1)
    if not known.any():
        raise TableError(f"{name}: no row has an outcome. Check the column.")
    cases = replace(cases, frame=cases.frame.loc[known])
    cases = cases.complete() if drop_missing else cases
    y = y.loc[cases.frame.index]
    y = y.astype(float) if censored else _whole(y)
    outcome = read_outcome(y, len(y), "censored" if censored else "auto")
    counts = np.bincount([] if outcome.codes is None else outcome.codes, minlength=len(outcome.names))
    title = str(y.name) if happened is None else f"{cases.roles['time']} and {happened.name}"
    parts = {name: int(count) for name, count in zip(outcome.names, counts, strict=True)}
    return Question(cases, y, title, outcome.kind, parts, int((~known).sum()))


def _read(path: Path, columns: Columns) -> tuple[Table, pd.Series[Any] | None]:
    """The table, and what happened as 1, 0 or missing: the event, also when it is given as column=value."""
    from clearfold.table import read_table

    event, _, value = (columns.event or "").partition("=")
    roles = {"label": columns.label, "time": columns.time, "patient_id": columns.group, "case_id": columns.case}
    if not value:
        cases = read_table(path, event=event or None, ignore=columns.ignore, **roles)
        return cases, cases.role("event") if "time" in cases.roles else None
    cases = read_table(path, ignore=[*columns.ignore, event], **roles)
    texts = cases.frame[event].map(str, na_action="ignore")
    if not (texts == value).any():
        seen = ", ".join(map(repr, sorted(texts.dropna().unique())[:5]))
        raise InputError(f"--event {columns.event}: no row of {event!r} is {value!r}; its values are {seen}.")
    happened = (texts == value).astype(float).where(texts.notna()).rename(columns.event)
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


def _time_and_event(cases: Table, happened: pd.Series[Any]) -> pd.DataFrame:
    """Two columns of numbers; a row has both or neither."""
    import pandas as pd

    both = {"time": cases.frame[cases.roles["time"]], "event": happened}
    y = pd.DataFrame({name: pd.to_numeric(column.astype(object)) for name, column in both.items()})
    half = y.isna().sum(axis=1) == 1
    if half.any():
        first = y[half].iloc[0]
        known, unknown = first.dropna().index[0], first.index[first.isna()][0]
        raise TableError(
            f"{half.sum()} of {len(y)} rows have half an outcome: row {half.idxmax()} (from 0) has its {known} but no "
            f"{unknown}. Give both (event 0: not seen until that time), or empty both cells to leave the row out."
        )
    return y


def _whole(y: pd.Series[Any]) -> pd.Series[Any]:
    """Classes 0 and 1 that a gap had turned into 0.0 and 1.0."""
    return y.astype(int) if y.dtype.kind == "f" and (y == y.round()).all() else y
