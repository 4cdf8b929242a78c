"""Many values become six numbers: mean, SD, median, min / max, skewness and disorder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from clearfold.features.catalogue import STATISTICS, Features, Measure, feature_names

Floats = NDArray[np.float64]

EQUAL = 1e-10
"""Values whose SD is below this share of the largest are equal up to rounding: skewness and disorder are then 0."""


def summarise(values: Any, prefix: str = "") -> dict[str, float]:
    """Mean, SD (divided by n), median, min / max, skewness m3 / SD^3 and disorder 1 - 1 / (1 + SD / mean).

    Values that are not finite are left out; without any left all six are NaN. min / max is of magnitudes and disorder
    has |mean|, which changes nothing for values of one sign and keeps both within 0 and 1 for others. Equal values
    have min / max 1, skewness 0 and disorder 0. The order of the values has no influence, not even on the last digit.
    `prefix` is put before the names.

    >>> {name: round(value, 3) for name, value in summarise([1, 2, 3, 6]).items()}
    {'mean': 3.0, 'sd': 1.871, 'median': 2.5, 'min_max': 0.167, 'skewness': 0.687, 'disorder': 0.384}
    """
    column = np.asarray(values, dtype=float).reshape(1, -1)
    return {_joined(prefix, name): float(value[0]) for name, value in zip(STATISTICS, six(column), strict=True)}


def summarise_table(frame: pd.DataFrame, prefix: str = "") -> dict[str, float]:
    """`summarise` of every column of a table of objects: `prefix.column.statistic`, columns in their order.

    >>> list(summarise_table(pd.DataFrame({"area": [1.0, 2.0]}), "shape.nucleus"))[:2]
    ['shape.nucleus.area.mean', 'shape.nucleus.area.sd']
    """
    rows = six(frame.to_numpy(dtype=float, na_value=np.nan).T)
    return {
        _joined(prefix, f"{column}.{statistic}"): float(row[i])
        for i, column in enumerate(frame.columns)
        for statistic, row in zip(STATISTICS, rows, strict=True)
    }


def summarise_measures(measures: Iterable[Measure], values: Mapping[str, Any], reason: str) -> Features:
    """The numbers of measures from their values by name; an array where summarised, else one number.

    reason : told of each number that is NaN
    """
    measures = tuple(measures)
    columns = {measure.name: np.asarray(values[measure.name], float) for measure in measures if measure.summarised}
    numbers = {measure.name: float(values[measure.name]) for measure in measures if not measure.summarised}
    for size in {len(column) for column in columns.values()}:  # columns of one length go through together
        names = [name for name, column in columns.items() if len(column) == size]
        rows = six(np.stack([columns[name] for name in names]))
        for statistic, row in zip(STATISTICS, rows, strict=True):
            numbers |= {f"{name}.{statistic}": float(value) for name, value in zip(names, row, strict=True)}
    ordered = {name: numbers[name] for name in feature_names(measures)}
    return Features(ordered, {name: reason for name, number in ordered.items() if np.isnan(number)})


def six(values: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats]:
    """The six statistics of each row of (m, n) values, as six arrays of length m."""
    if values.shape[1] == 0:
        nothing = np.full(len(values), np.nan)
        return nothing, nothing, nothing, nothing, nothing, nothing
    finite = np.isfinite(values)
    count = finite.sum(axis=1)
    known = np.sort(values if finite.all() else np.where(finite, values, np.nan), axis=1)  # what is missing comes last
    rows, last = np.arange(len(known)), np.maximum(count - 1, 0)
    low, high = known[:, 0], known[rows, last]
    median = known[rows, last // 2] / 2 + known[rows, np.minimum(count // 2, last)] / 2
    scale = _scale(np.maximum(np.abs(low), np.abs(high)))
    centred = known / scale[:, None]
    mean = _mean(centred, count)
    centred -= mean[:, None]
    squared = centred * centred
    sd = np.sqrt(_mean(squared, count))
    squared *= centred
    equal = sd <= EQUAL
    skewness = np.where(equal, 0.0, _mean(squared, count) / np.where(equal, 1.0, sd * sd * sd))
    disorder = np.where(equal, 0.0, sd / np.where(equal, 1.0, sd + np.abs(mean)))
    return mean * scale, sd * scale, median, _min_max(known, low, high), skewness, disorder


def _scale(largest: Floats) -> Floats:
    """The power of two near each: dividing by it is exact, and powers of what is left cannot overflow."""
    exponent = np.frexp(np.where(largest > 0, largest, 1.0))[1]
    return np.ldexp(1.0, np.clip(exponent, -1000, 1000))


def _mean(values: Floats, count: NDArray[np.int64]) -> Floats:
    """Mean of the first `count` of each row; NaN of none."""
    if (count == values.shape[1]).all():
        return values.mean(axis=1)
    kept = np.where(np.arange(values.shape[1]) < count[:, None], values, 0.0)
    return kept.sum(axis=1) / np.where(count > 0, count, np.nan)


def _min_max(known: Floats, low: Floats, high: Floats) -> Floats:
    """Smallest / largest magnitude of sorted rows; 1 where all are zero."""
    smallest = np.minimum(np.abs(low), np.abs(high))
    mixed = (low < 0) & (high > 0)
    smallest[mixed] = np.nanmin(np.abs(known[mixed]), axis=1) if mixed.any() else 0.0
    largest = np.maximum(np.abs(low), np.abs(high))
    return np.where(largest == 0, 1.0, smallest / np.where(largest == 0, 1.0, largest))


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
