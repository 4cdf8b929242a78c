"""Harrell's concordance of risk and time, pairs within folds, with an interval over patients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clearfold.embedding.spectral import Matrix

BLOCK = 200
"""Bootstrap draws that are counted at once."""


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value

    def __contains__(self, other: float) -> bool:
        return self.low <= other <= self.high

    def __str__(self) -> str:
        if not np.isfinite([self.low, self.high]).all():
            return f"{self.value:.2f} (no interval)"
        return f"{self.value:.2f} (95 % {self.low:.2f} to {self.high:.2f})"


def concordance(time: Matrix, event: Any, risk: Matrix, fold: Any = None) -> float:
    """Share of comparable pairs in which the earlier event had the higher risk; equal risks count one half.

    A pair is comparable if the earlier time is an event, or the times are equal and only one of them is. With folds
    only pairs within a fold are compared: risks of different models have no common scale. NaN without any pair.
    """
    time, event, risk = np.asarray(time), np.asarray(event), np.asarray(risk)
    pairs = _pairs(time, event, risk, _folds(fold, len(time)))
    return _ratio(sum(won.sum() for _, won, _ in pairs), sum(all_.sum() for _, _, all_ in pairs))


def concordance_draws(
    time: Matrix, event: Any, risk: Matrix, fold: Any, count: int, random: np.random.Generator
) -> Matrix:
    """Concordance of patients drawn again with replacement, `count` times; NaN where no pair was comparable."""
    n = len(time)
    pairs = _pairs(time, event, risk, _folds(fold, n))
    values = []
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        times_drawn = random.multinomial(n, np.full(n, 1 / n), size=size).astype(float)
        won, every = np.zeros(size), np.zeros(size)
        for rows, wins, comparable in pairs:
            weight = times_drawn[:, rows]
            won += ((weight @ wins) * weight).sum(axis=1)
            every += ((weight @ comparable) * weight).sum(axis=1)
        values.append(np.divide(won, every, out=np.full(size, np.nan), where=every > 0))
    return np.concatenate(values) if values else np.zeros(0)


def _folds(fold: Any, n: int) -> Any:
    return np.zeros(n, dtype=int) if fold is None else np.asarray(fold)


def _pairs(time: Matrix, event: Any, risk: Matrix, fold: Any) -> list[tuple[Any, Matrix, Matrix]]:
    """For each fold its rows, what each ordered pair (i died first, j) won, and whether it is comparable."""
    found = []
    for one in np.unique(fold):
        rows = np.flatnonzero(fold == one)
        t, e, r = time[rows], event[rows].astype(bool), risk[rows]
        before = np.less.outer(t, t) | (np.equal.outer(t, t) & ~e[None, :])
        comparable = (before & e[:, None]).astype(float)
        wins = comparable * (np.greater.outer(r, r) + 0.5 * np.equal.outer(r, r))
        found.append((rows, wins, comparable))
    return found


def _ratio(won: float, every: float) -> float:
    return float(won / every) if every > 0 else float("nan")
