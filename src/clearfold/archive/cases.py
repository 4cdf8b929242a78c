"""From a table to cases: what each column becomes in an archive."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clearfold.archive.store import Case, Floats, Scalar
from clearfold.errors import ArchiveError
from clearfold.table import Table, read_table
from clearfold.table.columns import flat, listed, present
from clearfold.table.frames import as_frame

NEVER_FEATURES = ("region", "outcome", "image")
"""Columns that say something about a case even when they hold numbers."""
IDS = ("case_id", "patient_id", "slide_id")


def as_table(table: Any, metadata: Iterable[str] = (), **roles: str | None) -> Table:
    """A Table from a frame, a Table or a path; columns of `metadata`, and some known ones, are not features."""
    metadata = [metadata] if isinstance(metadata, str) else list(metadata)
    table = as_frame(table)
    if isinstance(table, str | PathLike):
        table = read_table(Path(table), **roles)  # type: ignore[arg-type]
    if isinstance(table, Table):
        frame, features = table.frame, table.features
        roles = {**table.roles, **{role: name for role, name in roles.items() if name is not None}}
    elif isinstance(table, pd.DataFrame):
        frame, features = table, None
    else:
        raise ArchiveError(
            f"{type(table).__name__} came; wanted is a table (DataFrame, Table, or its path), a folder or a list of "
            "images."
        )
    frame = flat(frame)
    for name in frame.columns:
        _text(str(name))
    for name in metadata:
        present(name, frame, "metadata")
    taken = {str(name) for name in roles.values()} | set(IDS)
    aside = [name for name in (*metadata, *NEVER_FEATURES) if name in frame.columns and name not in taken]
    if features is not None:
        features = [name for name in features if name not in aside]
    checked = Table.from_frame(frame, features=features, ignore=aside, **roles)
    if "case_id" not in checked.roles:
        raise ArchiveError(
            "There is no column case_id: every case needs a name. Say which one it is with case_id=. "
            f"The columns are {listed(list(map(str, frame)), 12)}."
        )
    return checked


def cases_of(table: Table) -> list[Case]:
    """One case a row; ids become text, text columns and outcomes go to `about`."""
    ids = {role: _ids(table, role) for role in IDS}
    labels = [label_of(value) for value in _column(table, "label")]
    about = _about(table)
    rows = np.ascontiguousarray(table.X.to_numpy(), dtype=np.float64)
    _unique(ids["case_id"])
    zipped = zip(ids["case_id"], ids["patient_id"], ids["slide_id"], labels, about, rows, strict=True)
    by_name = np.argsort(np.array(table.features))  # the order of columns does not make another case
    return [
        Case(str(one), patient, slide, label, more, row, digest=digest(one, patient, slide, label, more, row[by_name]))
        for one, patient, slide, label, more, row in zipped
    ]


def digest(*said: Any) -> bytes:
    """A mark of what a case says: everything but the last as JSON, the last as bytes."""
    *known, content = said
    mark = blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=16)
    mark.update(content if isinstance(content, bytes) else np.ascontiguousarray(content, dtype="<f8").tobytes())
    return mark.digest()


def scalar(value: Any) -> Scalar:
    """A value as it can be stored: text, a number, true or false, or None where it is missing."""
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bool | int):
        return value
    return _text(str(value))


def label_of(value: Any) -> Scalar:
    """A label; -1 and missing are no label, 2.0 (a column of numbers that misses some) is 2."""
    label = scalar(value)
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return None if label == -1 and not isinstance(label, bool) else label


def _ids(table: Table, role: str) -> Sequence[str | None]:
    column = _column(table, role)
    if role not in table.roles:
        return column
    texts = [identity(value) for value in column]
    if None in texts:
        raise ArchiveError(
            f"{texts.count(None)} of {len(texts)} values of {table.roles[role]!r} ({role}) are missing. "
            "Fill them, or leave the whole column out."
        )
    return texts


def identity(value: Any) -> str | None:
    """An id as text (1.0, from a column of numbers that misses some, is 1); None when it is missing or blank."""
    known = scalar(value)
    if isinstance(known, float) and known.is_integer():
        known = int(known)
    return None if known is None or not str(known).strip() else str(known)


def _column(table: Table, role: str) -> Sequence[Any]:
    column = table.role(role)
    return [None] * len(table) if column is None else column.astype(object).tolist()


def _about(table: Table) -> list[dict[str, Scalar]]:
    used = {*table.features, *(table.roles[role] for role in (*IDS, "label") if role in table.roles)}
    names = {str(name): str(name) for name in table.frame.columns if name not in used}
    names |= {table.roles[role]: role for role in ("time", "event") if role in table.roles}
    columns = {names[name]: [scalar(value) for value in table.frame[name].astype(object)] for name in names}
    if not columns:
        return [{} for _ in range(len(table))]
    return [
        {name: value for name, value in zip(columns, row, strict=True) if value is not None}
        for row in zip(*columns.values(), strict=True)
    ]


def _unique(ids: Sequence[str | None]) -> None:
    if len(set(ids)) < len(ids):  # 1 and "1" are different cells, but one name
        twice = sorted(str(name) for name, times in Counter(ids).items() if times > 1)
        raise ArchiveError(f"Duplicate case id: {listed(twice, 5)}. Wanted is each once.")


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ArchiveError(
            f"the text {value!r} is not valid Unicode. Read the table again with the right encoding."
        ) from None
    if "\x00" in value:
        raise ArchiveError(f"the text {value!r} holds a zero byte, which cannot be stored. Clean the column.")
    return value


def rows_like(rows: Any, names: Sequence[str]) -> pd.DataFrame:
    """Rows as a frame with exactly these features, from a frame, a Series, a mapping or an array in their order."""
    rows = rows.X if isinstance(rows, Table) else as_frame(rows)
    if isinstance(rows, dict):
        rows = pd.Series(rows)
    if isinstance(rows, pd.Series):
        rows = rows.to_frame().T
    if isinstance(rows, pd.DataFrame):
        frame = rows.set_axis([str(name) for name in rows.columns], axis=1)
        missing = [name for name in names if name not in frame.columns]
        if missing:
            raise ArchiveError(
                f"{len(missing)} of the archive's {len(names)} features are missing, such as {listed(missing, 3)}. "
                "Give rows that were measured as the archive was."
            )
        values = frame[list(names)]
    else:
        array = np.atleast_2d(np.asarray(rows))
        if array.ndim != 2 or array.shape[1] != len(names):
            raise ArchiveError(
                f"rows of shape {array.shape} came; wanted are {len(names)} features, in the archive's order."
            )
        values = pd.DataFrame(array, columns=list(names))
    return pd.DataFrame(_numbers(values), index=values.index, columns=list(names))


def _numbers(frame: pd.DataFrame) -> Floats:
    try:
        values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ArchiveError(
            f"features must be numbers ({error}). Turn them into numbers, or leave them empty."
        ) from error
    if np.isinf(values).any():
        names = [str(name) for name in frame.columns[np.isinf(values).any(axis=0)]]
        raise ArchiveError(f"infinite values in {listed(names, 5)}. Replace them by numbers, or leave them empty.")
    return values
