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
    def _sorted(self) -> Matrix:
        """Each feature's values in order, missing ones last."""
        return np.sort(self.values, axis=0)

    @cached_property
    def _known(self) -> Any:
        """How many values each feature has."""
        return (~np.isnan(self.values)).sum(axis=0)

    @cached_property
    def median(self) -> Matrix:
        """Of each feature; 0 where no case has a value."""
        known, columns = np.maximum(self._known, 1), np.arange(self.values.shape[1])
        below, above = self._sorted[(known - 1) // 2, columns], self._sorted[known // 2, columns]
        return np.where(self._known > 0, 0.5 * (below + above), 0.0)

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
        below, upto = self._before(row, np.less), self._before(row, np.less_equal)
        known = ~np.isnan(row) & (self._known > 0)
        return np.where(known, 50.0 * (below + upto) / np.maximum(self._known, 1), np.nan)

    def _before(self, row: Matrix, stands: Any) -> Any:
        """How many values of each feature are less than (or equal to) the row's: every feature halved at once."""
        low, high, columns = np.zeros(len(row), dtype=int), self._known.copy(), np.arange(len(row))
        while (searched := low < high).any():
            middle = (low + high) // 2
            right = searched & stands(self._sorted[np.minimum(middle, len(self.values) - 1), columns], row)
            low, high = np.where(right, middle + 1, low), np.where(searched & ~right, middle, high)
        return low

    @cached_property
    def _scaled_values(self) -> Matrix:
        return self.scaled(self.values)

    @cached_property
    def _points(self) -> Points:
        return Points(self._scaled_values, copy=False)

    def correlated(self, one: int, others: list[int], least: float = 0.9) -> list[int]:
        """Other features whose correlation with one is at least so high, in modulus; none when cases are few."""
        if not others or len(self.values) < FEWEST:
            return []
        strength = np.abs(self._directions[:, one] @ self._directions)
        return [other for other in others if strength[other] >= least]

    @cached_property
    def _directions(self) -> Matrix:
        """Features of the first cases around 0, each of length 1: products are correlations."""
        z = self._scaled_values[: 10 * FEWEST]
        z = z - z.mean(axis=0)
        length = np.linalg.norm(z, axis=0)
        return z / np.where(length > 0, length, np.inf)

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

    def strange(self, row: Matrix, whose: str | None) -> str:
        """Why a query lies outside what the archive has seen; nothing when it does not. Its own cases do not count."""
        others = self.patients != whose
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


def owner(case_id: str | None, patient_id: str | None) -> str | None:
    """Whose a case is, if that is known: a case without a patient is a patient of its own."""
    if patient_id is not None:
        return f"patient {patient_id}"
    return None if case_id is None else f"case {case_id}"


def _read(archive: Any, fitted: Any) -> Background:
    place = {name: column for column, name in enumerate(archive.feature_names)}
    kept = [place[name] for name in fitted.features]
    cases = archive.cases_of(archive.sample(SAMPLED))
    whose = [owner(case.case_id, case.patient_id) for case in cases]
    return Background(
        tuple(fitted.features), np.array([case.features for case in cases])[:, kept], np.array(whose, dtype=object)
    )
