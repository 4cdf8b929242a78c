"""The border: times, events, groups and patients are checked here once."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError, MissingExtraError


def read_times(time: Any, event: Any) -> tuple[Matrix, Any]:
    """Times as floats, not negative; events as 0 or 1; none missing, as long as each other, at least one event."""
    import pandas as pd

    time, event = np.asarray(time), np.asarray(event)
    if time.ndim != 1 or time.shape != event.shape:
        raise InputError(
            f"time of shape {time.shape} and event of shape {event.shape} came; wanted is one number of each for each "
            "sample, in the same order."
        )
    for name, values in (("times", time), ("events", event)):
        missing = int(pd.isna(values).sum())
        if missing:
            raise InputError(f"{missing} of {len(values)} {name} are missing. Drop these rows: they cannot be guessed.")
    try:
        times = time.astype(float)
    except (TypeError, ValueError) as error:
        raise InputError(f"time wants numbers, such as months; {error}.") from error
    if not np.isfinite(times).all() or (times < 0).any():
        wrong = times[~(np.isfinite(times) & (times >= 0))]
        raise InputError(
            f"{len(wrong)} of {len(times)} times are negative or infinite (the first is {wrong[0]:g}). A time counts "
            "from the start of observation to the event or the last visit: check the dates."
        )
    events = _read_events(event)
    if events.sum() == 0:
        raise InputError(f"all {len(events)} samples are censored: without an event there is nothing to learn.")
    if len(np.unique(times)) == 1:
        raise InputError(f"every time is {times[0]:g}: survival cannot be compared. Check the time column.")
    return times, events


def _read_events(event: Any) -> Any:
    try:
        values = event.astype(float)
    except (TypeError, ValueError):
        values = np.full(len(event), np.nan)
    wrong = event[~np.isin(values, (0.0, 1.0))]
    if len(wrong):
        raise InputError(
            f"event={wrong[0]!r} came; wanted is 1 (or True) where the event was seen and 0 (or False) where the "
            "patient was censored. Write for example event=(outcome == 'R')."
        )
    return values.astype(int)


def read_groups(group: Any, n_samples: int) -> tuple[Any, list[str]]:
    """Codes 0, 1, ... and the names of at least two groups; categories keep their order, other values are sorted."""
    import pandas as pd

    kept = group if isinstance(getattr(group, "dtype", None), pd.CategoricalDtype) else np.asarray(group)
    if kept.shape != (n_samples,):
        raise InputError(f"groups of shape {kept.shape} came for {n_samples} samples. Give one group for each sample.")
    missing = int(pd.isna(kept).sum())
    if missing:
        raise InputError(f"{missing} of {n_samples} samples have no group. Give one to each, or drop these rows.")
    values = pd.Categorical(kept).remove_unused_categories()
    names = [str(name) for name in values.categories]
    if len(names) < 2:
        raise InputError(f"one group only came ({', '.join(names)}); wanted are at least two groups to compare.")
    return np.asarray(values.codes, dtype=int), names


def read_samples(X: Any, n_samples: int) -> Matrix:
    """Features (n, m) as finite numbers, one row for each time."""
    try:
        values = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"X wants numbers; {error}. Leave out columns of text.") from error
    if values.ndim != 2 or len(values) != n_samples or values.shape[1] == 0:
        raise InputError(f"X of shape {values.shape} came with {n_samples} times; wanted is one row for each time.")
    rows = int((~np.isfinite(values)).any(axis=1).sum())
    if rows:
        raise InputError(
            f"{rows} of {n_samples} rows of X have missing or infinite values. Drop these rows or these features first."
        )
    return values


def read_patients(groups: Any, time: Matrix, event: Any) -> tuple[Any, list[Any], Any]:
    """Code of the patient of each row, their names, and the first row of each; a patient has one time and event."""
    import pandas as pd

    names = np.arange(len(time)) if groups is None else np.asarray(groups)
    if names.shape != time.shape:
        raise InputError(
            f"patients of shape {names.shape} came for {len(time)} samples. Give the patient of each row in groups."
        )
    missing = int(pd.isna(names).sum())
    if missing:
        raise InputError(f"{missing} of {len(time)} patients are missing. Name one for each row, or drop these rows.")
    unique, first, codes = np.unique(
        names.astype(str) if names.dtype == object else names, return_index=True, return_inverse=True
    )
    differ = (time != time[first][codes]) | (event != event[first][codes])
    if differ.any():
        raise InputError(
            f"patient {unique[codes[differ][0]]} has rows of different time or event; wanted is one outcome for each "
            "patient, the same in all of its rows."
        )
    return codes, unique.tolist(), first


def lifelines(module: str) -> Any:
    """A module of lifelines, which is an extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            "Survival curves need lifelines, which is not installed. Install it with: pip install 'clearfold[survival]'"
        ) from error
