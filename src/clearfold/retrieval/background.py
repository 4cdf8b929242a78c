"""What the archive has seen: where a value stands in it, and whether a query lies within it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from clearfold.embedding.distances import blocks
from clearfold.embedding.samples import Points
from clearfold.embedding.spectral import Matrix

SAMPLED = 2000
"""At most so many cases stand for the archive."""
WIDEST = 5.0
"""Deviations beyond so many standard deviations count as that many."""
LEVEL = 0.995
"""Stranger than this share of the archive's own cases, in distance or in range, is unfamiliar: one in 100 by chance."""
MOST_MISSING = 0.25
FEWEST = 30
"""Cases from which on a correlation means something; ten times as many are enough."""


@dataclass(frozen=True, eq=False)
class Background:
    """Features (cases x features that the embedding uses, NaN where missing) of at most SAMPLED cases, and patients.

    A case without a patient is a patient of its own.
    """

    names: tuple[str, ...]
    values: Matrix
    patients: Any

    @cached_property
    def _sorted(self) -> list[Matrix]:
        return [np.sort(column[~np.isnan(column)]) for column in self.values.T]

    @cached_property
    def median(self) -> Matrix:
        """Of each feature; 0 where no case has a value."""
        return np.array([np.median(column) if len(column) else 0.0 for column in self._sorted])

    @cached_property
    def _mean(self) -> Matrix:
        return np.where(np.isnan(self.values), self.median, self.values).mean(axis=0)

    @cached_property
    def spread(self) -> Matrix:
        """Standard deviation of each feature, 0 where it does not vary."""
        deviation = np.where(np.isnan(self.values), self.median, self.values).std(axis=0)
        return np.where(deviation > 1e-12 * np.abs(self._mean), deviation, 0.0)

    def scaled(self, values: Matrix) -> Matrix:
        """z-scores, a missing value at the median, at most WIDEST; features that do not vary are 0."""
        filled = np.where(np.isnan(values), self.median, values)
        scaled = (filled - self._mean) / np.where(self.spread > 0, self.spread, 1.0)
        return np.where(self.spread > 0, np.clip(scaled, -WIDEST, WIDEST), 0.0)

    def percentiles(self, row: Matrix) -> Matrix:
        """Share of the archive below each value, equal ones counted half, times 100."""
        found = np.full(len(row), np.nan)
        for number, (value, column) in enumerate(zip(row, self._sorted, strict=True)):
            if not np.isnan(value) and len(column):
                below, upto = np.searchsorted(column, value, "left"), np.searchsorted(column, value, "right")
                found[number] = 50.0 * (below + upto) / len(column)
        return found

    @cached_property
    def _scaled_values(self) -> Matrix:
        return self.scaled(self.values)

    @cached_property
    def _points(self) -> Points:
        return Points(self._scaled_values, copy=False)

    def correlated(self, one: int, others: list[int], least: float = 0.9) -> list[int]:
        """Other features whose correlation with one is at least so high, in modulus; none when cases are few."""
        z = self._scaled_values[: 10 * FEWEST]
        if not others or len(z) < FEWEST:
            return []
        ours, theirs = z[:, one] - z[:, one].mean(), z[:, others] - z[:, others].mean(axis=0)
        scale = np.linalg.norm(ours) * np.linalg.norm(theirs, axis=0)
        strength = np.abs(ours @ theirs) / np.where(scale > 0, scale, np.inf)
        return [other for other, value in zip(others, strength, strict=True) if value >= least]

    @cached_property
    def _own(self) -> tuple[Matrix, Matrix]:
        """Of each case: distance to the nearest case of another patient, and how far outside their range it is."""
        nearest = np.empty(len(self.values))
        for rows in blocks(len(nearest), len(nearest)):
            table = self._points.squared_to(self._scaled_values[rows])
            table[self.patients[rows, None] == self.patients] = np.inf
            nearest[rows] = np.sqrt(table.min(axis=1))
        low, high = (self._edges_without(sign) for sign in (-1.0, 1.0))
        return nearest, _excess(self.values, low, high).sum(axis=1)

    def _edges_without(self, sign: float) -> Matrix:
        """Smallest (-1) or largest (1) value of each feature among the other patients of each case."""
        signed = np.where(np.isnan(self.values), -np.inf, sign * self.values)
        names, at = np.unique(self.patients, return_inverse=True)
        of_patient = np.full((len(names), signed.shape[1]), -np.inf)
        np.maximum.at(of_patient, at, signed)
        leader = of_patient.argmax(axis=0)
        first = of_patient.max(axis=0)
        of_patient[leader, np.arange(len(leader))] = -np.inf
        second = of_patient.max(axis=0)
        edges = np.where(at[:, None] == leader, second, first)
        return sign * np.where(np.isfinite(edges), edges, np.inf)

    def strange(self, row: Matrix, patient: str | None) -> str:
        """Why a query lies outside what the archive has seen; nothing when it does not."""
        others = self.patients != patient if patient is not None else np.ones(len(self.patients), dtype=bool)
        if others.sum() < 2 or len(np.unique(self.patients)) < 3:
            return ""
        reasons = []
        nearest, outside = self._own
        finite = nearest[np.isfinite(nearest)]
        distance = float(np.sqrt(self._points.squared_to(self.scaled(row)[None])[0, others].min()))
        limit = float(np.quantile(finite, LEVEL))
        if distance > limit * (1 + 1e-9):
            reasons.append(f"its features are {distance:.3g} standard deviations from the nearest case ({limit:.3g} is "
                           f"the most for {LEVEL:.1%} of the archive's own cases)")  # fmt: skip
        far, total = self._outside(row, others)
        if total > float(np.quantile(outside, LEVEL)) * (1 + 1e-9):
            named = [f"{self.names[j]} {row[j]:.4g} ({low:.4g} to {high:.4g})" for j, low, high in far[:3]]
            reasons.append(
                f"{len(far)} of {len(row)} features lie outside the archive's range, first {', '.join(named)}"
            )
        absent = float(np.isnan(row).mean()) - float(np.isnan(self.values).mean())
        if absent > MOST_MISSING:
            reasons.append(f"{int(np.isnan(row).sum())} of {len(row)} features are missing")
        return "; ".join(reasons)

    def _outside(self, row: Matrix, others: Any) -> tuple[list[tuple[int, float, float]], float]:
        """Features outside the range of the archive, the farthest first, with that range; and how far in all."""
        seen = ~np.isnan(self.values[others])
        low = np.where(seen, self.values[others], np.inf).min(axis=0)
        high = np.where(seen, self.values[others], -np.inf).max(axis=0)
        excess = _excess(row, low, high)
        order = np.argsort(-excess, kind="stable")
        return [(int(j), float(low[j]), float(high[j])) for j in order if excess[j] > 0], float(excess.sum())


def _excess(values: Matrix, low: Matrix, high: Matrix) -> Matrix:
    """How far values lie outside a range, in widths of the range; 0 inside, and where anything is missing."""
    with np.errstate(invalid="ignore", over="ignore"):
        width = np.where(high > low, high - low, np.maximum(np.abs(high), 1e-300))
        excess = np.maximum(low - values, values - high) / width
    return np.where(np.isfinite(excess), np.maximum(excess, 0.0), 0.0)


_KNOWN: WeakKeyDictionary[Any, tuple[Any, Background]] = WeakKeyDictionary()


def background_of(archive: Any, fitted: Any) -> Background:
    """The archive's background for a fitted version, read once while neither of them changes."""
    key = (fitted.version, len(archive))
    known = _KNOWN.get(archive)
    if known is None or known[0] != key:
        known = (key, _read(archive, fitted))
        _KNOWN[archive] = known
    return known[1]


def _read(archive: Any, fitted: Any) -> Background:
    place = {name: column for column, name in enumerate(archive.feature_names)}
    kept = [place[name] for name in fitted.features]
    cases = archive.cases_of(archive.sample(SAMPLED))
    whose = [f"case {case.case_id}" if case.patient_id is None else f"patient {case.patient_id}" for case in cases]
    return Background(
        tuple(fitted.features), np.array([case.features for case in cases])[:, kept], np.array(whose, dtype=object)
    )
