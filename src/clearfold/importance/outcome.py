"""What is to be explained: labels, values or censored times, as centred columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError
from clearfold.importance.formula import in_safe_range

KINDS = ("auto", "label", "value", "censored")


@dataclass(frozen=True)
class Outcome:
    """Centred target columns of n samples.

    target : n x c; one column for two classes, a value or a censored time, one for each class otherwise
    kind : "label", "value" or "censored"
    codes : class (or event) number of each sample, None for values; names : the classes
    source : what was read, one row for each sample
    """

    target: Matrix
    kind: str
    codes: Any
    names: tuple[str, ...]
    source: Any

    def permuted(self, rows: Any) -> Outcome:
        """The outcome with that of row rows[i] in row i."""
        codes = None if self.codes is None else self.codes[rows]
        return Outcome(self.target[rows], self.kind, codes, self.names, self.source[rows])

    def take(self, rows: Any) -> Outcome:
        """The outcome of some rows, read anew: centring and who is at risk are theirs alone."""
        return read_outcome(self.source[rows], len(rows), self.kind)


def read_outcome(y: Any, n_samples: int, kind: str = "auto") -> Outcome:
    """Two classes: one column; more: one for each class; numbers: themselves; (time, event): martingale residuals.

    With kind="auto" text, booleans and whole numbers of at most 20 values are labels, other numbers values, and two
    columns named or ordered (time, event) a censored time.
    """
    if y is None:
        raise InputError(
            "no labels came: importance requires y to be passed, but the target y is None. Give one for each row of X."
        )
    table = np.asarray(y)
    if table.ndim == 0:
        raise InputError(f"y={y!r} came for {n_samples} samples. Give one label for each row of X.")
    if table.dtype.names:
        if not {"time", "event"} <= set(table.dtype.names):
            raise InputError(f"fields {', '.join(table.dtype.names)} came; fields named time and event are wanted.")
        table = np.column_stack([table[name] for name in ("time", "event")])
    elif hasattr(y, "columns") and {"time", "event"} <= set(y.columns):
        table = np.asarray(y[["time", "event"]])
    if len(table) != n_samples:
        raise InputError(f"{len(table)} labels came for {n_samples} samples. Give one for each row of X.")
    if kind not in KINDS:
        raise InputError(f"outcome={kind!r} came; 'auto', 'label', 'value' or 'censored' is wanted.")
    if table.ndim == 2 and table.shape[1] == 2 and kind in ("auto", "censored"):
        return _censored(table)
    if kind == "censored":
        raise InputError(f"outcome='censored' came with y of shape {table.shape}; two columns are wanted: time, event.")
    if table.ndim == 2 and table.shape[1] == 1:
        table = table[:, 0]
    if table.ndim != 1:
        raise InputError(f"labels of shape {table.shape} came; one column is wanted, or two (time, event).")
    missing = int(_missing(table).sum())
    if missing:
        raise InputError(f"{missing} of {n_samples} labels are missing. Drop these rows, or fill in their labels.")
    if kind == "auto":
        kind = _kind(table)
    return _value(table) if kind == "value" else _label(table)


def martingale_residuals(time: Any, event: Any) -> Matrix:
    """event - H(time), H the Nelson-Aalen hazard: martingale residuals of the Cox model without covariates."""
    time, event = np.asarray(time, dtype=float), np.asarray(event, dtype=float)
    order = np.argsort(time, kind="stable")
    times, first = np.unique(time[order], return_index=True)
    at_risk = len(time) - first
    deaths = np.add.reduceat(event[order], first)
    hazard = np.cumsum(deaths / at_risk)
    return event - hazard[np.searchsorted(times, time)]


def _label(table: Any) -> Outcome:
    names, codes = np.unique(table.astype(str) if table.dtype == object else table, return_inverse=True)
    counts = np.bincount(codes)
    if len(names) < 2:
        raise InputError(f"only one class came ({names[0]}); at least two are wanted. Check the label column.")
    if len(names) > 2 and "-1" in {str(name) for name in names}:
        raise InputError("label -1 means unknown; importance wants known labels. Drop these rows, or rename the class.")
    if counts.min() < 2:
        lonely = ", ".join(str(name) for name in names[counts < 2][:5])
        raise InputError(f"a class with a single sample came ({lonely}). Merge it with another class, or drop it.")
    hot = np.equal.outer(codes, np.arange(len(names))).astype(float)
    hot = hot[:, 1:] if len(names) == 2 else hot
    return Outcome(hot - hot.mean(axis=0), "label", codes, tuple(str(name) for name in names), table)


def _value(table: Any) -> Outcome:
    try:
        values = table.astype(float)
    except (TypeError, ValueError) as error:
        raise InputError("an outcome of text came; numbers are wanted, or outcome='label'.") from error
    if not np.isfinite(values).all():
        raise InputError("an infinite outcome came; finite numbers are wanted. Drop these rows.")
    target = in_safe_range(values)
    target = (target - target.mean())[:, None]
    if target.std() == 0:
        raise InputError(f"every outcome is {values[0]:.4g}; there is nothing to explain. Check the outcome column.")
    return Outcome(target, "value", None, (), values)


def _censored(table: Any) -> Outcome:
    try:
        table = table.astype(float)
    except (TypeError, ValueError) as error:
        raise InputError(f"a censored time wants numbers, time and event (1 or 0); {error}.") from error
    time, event = table.T
    if not np.isfinite(table).all() or (time < 0).any() or not np.isin(event, (0, 1)).all():
        raise InputError("a censored time wants two columns: time, not negative, and event, 1 or 0, none missing.")
    if event.sum() < 2:
        raise InputError(f"{int(event.sum())} events came; at least two are wanted. Check the event column.")
    residuals = martingale_residuals(time, event)
    return Outcome((residuals - residuals.mean())[:, None], "censored", event.astype(int), ("censored", "event"), table)


def _kind(table: Any) -> str:
    if table.dtype.kind not in "fiu":
        return "label"
    whole = bool((table == np.round(table)).all())
    return "label" if whole and len(np.unique(table)) <= 20 else "value"


def _missing(table: Any) -> Any:
    if table.dtype.kind == "f":
        return np.isnan(table)
    if table.dtype == object:
        import pandas as pd

        return pd.isna(table)
    return np.zeros(len(table), dtype=bool)
