"""Which column of a frame is what: a role, a feature, or of no use and why."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from clearfold.errors import TableError
from clearfold.table.frames import as_frame

IDS = ("case_id", "patient_id", "slide_id")
ROLES = (*IDS, "label", "time", "event")


@dataclass(frozen=True)
class Content:
    """What a file holds, before roles are given."""

    frame: pd.DataFrame
    families: dict[str, str] | None = None
    """Feature -> family, when the format itself says what is a feature."""
    unnamed: tuple[str, ...] = ()


def flat(frame: pd.DataFrame) -> pd.DataFrame:
    """Text names without duplicates, rows counted from 0; an index that says something becomes a column."""
    frame = as_frame(frame)
    index = frame.index
    if index.nlevels > 1 or any(index.names) or not pd.api.types.is_integer_dtype(index.dtype):
        spare = "case_id" if index.is_unique and "case_id" not in frame.columns else "index"
        frame = frame.reset_index(names=[name or spare for name in index.names], allow_duplicates=True)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1).reset_index(drop=True)
    no_duplicates([str(name) for name in frame.columns], "column")
    if frame.empty:
        rows, columns = frame.shape
        raise TableError(f"{rows} rows and {columns} columns: wanted is at least one of each. Add samples.")
    return frame


def find_roles(frame: pd.DataFrame, asked: Mapping[str, str | None], ignore: Sequence[str]) -> dict[str, str]:
    """Role -> column: the asked name, else the column named like the role."""
    roles = {}
    for role in [*ROLES, *(set(asked) - set(ROLES))]:
        name = asked.get(role)
        if role not in ROLES:
            raise TableError(f"{role!r} is not a role. Roles are {', '.join(ROLES)}.")
        if name is not None:
            roles[role] = present(name, frame, role)
            if name in ignore:
                raise TableError(f"Column {name!r} is both {role} and in ignore. Choose one.")
        elif role in frame.columns and role not in ignore:
            roles[role] = role
    return roles


def without_use(frame: pd.DataFrame, roles: Mapping[str, str], ignore: Sequence[str]) -> dict[str, str]:
    """Column without a use -> reason."""
    reasons = dict.fromkeys(ignore, "as asked")
    for name, dtype in frame.dtypes.items():
        name = str(name)
        if name in roles.values() or name in reasons:
            continue
        if name in ROLES:
            reasons[name] = f"{name} is {roles.get(name)}"
        elif not numeric(dtype):
            reasons[name] = _why_not_numeric(frame[name])
    return reasons


def numeric(dtype: Any) -> bool:
    """Whether a column of this type can be a feature."""
    return bool(pd.api.types.is_numeric_dtype(dtype)) and not pd.api.types.is_complex_dtype(dtype)


def _why_not_numeric(column: pd.Series[Any]) -> str:
    """Say `text`, or which few cells keep a column of numbers from being a feature."""
    if not pd.api.types.is_object_dtype(column.dtype) and not pd.api.types.is_string_dtype(column.dtype):
        return str(column.dtype)
    wrong = column.notna() & _coerced(column).isna()
    if 0 < wrong.sum() < 0.5 * column.notna().sum():
        return f"text in {wrong.sum()} of {len(column)} cells, such as {column[wrong].iloc[0]!r}"
    return "text"


def present(name: str, frame: pd.DataFrame, wanted_for: str) -> str:
    """The name, when it is that of a column; else an error with the nearest names."""
    if isinstance(name, str) and name in frame.columns:
        return name
    columns = [str(column) for column in frame.columns]
    lowered = {column.lower(): column for column in reversed(columns)}
    close = [lowered[match] for match in difflib.get_close_matches(str(name).lower(), lowered, n=3)]
    hint = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
    raise TableError(
        f"There is no column {name!r} (wanted for {wanted_for}). {hint}The columns are: {listed(columns, 12)}."
    )


def declared(name: str, frame: pd.DataFrame, reasons: Mapping[str, str], roles: Mapping[str, str]) -> str:
    """A declared feature, when it can be one."""
    present(name, frame, "features")
    used = next((role for role, column in roles.items() if column == name), None)
    if used is not None:
        raise TableError(f"Column {name!r} is the {used}: it cannot be a feature too.")
    if name in reasons:
        raise TableError(
            f"Column {name!r} cannot be a feature: wanted are numbers, and it is {reasons[name]}. "
            "Turn it into numbers, or leave it out of the features."
        )
    return name


def check_features(frame: pd.DataFrame, features: list[str], reasons: Mapping[str, str]) -> None:
    """At least one feature, none twice, no infinite values."""
    no_duplicates(features, "feature")
    if not features:
        set_aside = listed([f"{name} ({why})" for name, why in reasons.items()], 8) or "none"
        raise TableError(
            "There is no numeric feature: at least one column of numbers without a role is needed. "
            f"Columns set aside: {set_aside}. Check the separator and that decimals use a point."
        )
    infinite = np.isinf(frame[features].to_numpy(dtype=float, na_value=np.nan))
    if infinite.any():
        where = [name for name, any_ in zip(features, infinite.any(axis=0), strict=True) if any_]
        raise TableError(
            f"{count_of(int(infinite.sum()), 'infinite value')} in {listed(where, 5)}. "
            "Replace them by numbers, or leave these cells empty (missing)."
        )


def check_roles(frame: pd.DataFrame, roles: Mapping[str, str]) -> None:
    """Every cell is one value; case ids are unique, times are not negative, events are 0 or 1."""
    for role, name in roles.items():
        nested = [cell for cell in frame[name] if not _single(cell)] if frame[name].dtype == object else []
        if nested:
            raise TableError(
                f"Column {name!r} ({role}) holds {type(nested[0]).__name__} such as {str(nested[0])[:60]}; wanted is "
                "one text or number in each cell."
            )
    if "case_id" in roles:
        ids = frame[roles["case_id"]]
        if ids.isna().any():
            raise TableError(f"Column {ids.name!r} (case_id) misses {ids.isna().sum()} values. Fill them.")
        no_duplicates(list(ids), "case id")
    if "time" in roles:
        time = _numbers(frame[roles["time"]], "time", "numbers that are not negative")
        if (time < 0).any() or np.isinf(time).any():
            raise TableError(f"Column {roles['time']!r} (time) has negative or infinite values.")
    if "event" in roles:
        event = _numbers(frame[roles["event"]], "event", "1 (it happened) or 0 (censored)")
        if not event.dropna().isin([0, 1]).all():
            raise TableError(
                f"Column {roles['event']!r} (event) has the values "
                f"{listed(sorted(map(str, event.unique())), 5)}; wanted is 1 (it happened) or 0 (censored)."
            )


def _single(cell: Any) -> bool:
    """Whether this is one value, and not several."""
    return bool(pd.api.types.is_scalar(cell)) and not isinstance(cell, memoryview)


def _numbers(column: pd.Series[Any], role: str, wanted: str) -> pd.Series[float]:
    values = _coerced(column)
    wrong = column[column.notna() & values.isna()]
    if len(wrong):
        raise TableError(
            f"Column {column.name!r} ({role}) has text such as {wrong.iloc[0]!r}; wanted are {wanted}. "
            f"Turn it into numbers, or pass ignore=[{column.name!r}] to leave it out."
        )
    return values


def _coerced(column: pd.Series[Any]) -> pd.Series[float]:
    """Numbers of a column of anything; NaN where a cell is none, or is too large to be one."""
    try:
        return pd.to_numeric(column.astype(object), errors="coerce")
    except (TypeError, ValueError, OverflowError):  # lists, and whole numbers beyond every float
        return column.map(_float).astype(float)


def _float(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def no_duplicates(names: Sequence[Any], what: str) -> None:
    """An error that names what comes twice."""
    twice = [str(name) for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError(f"Duplicate {what}: {listed(twice, 5)}. Wanted is each once: rename or drop the others.")


def count_of(number: int, noun: str) -> str:
    """`1 sample`, `2 samples`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
