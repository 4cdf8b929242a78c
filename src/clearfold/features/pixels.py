"""Values of the pixels of each object, and their statistics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clearfold.features.grid import Grid, Integers

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Pixels:
    """Values of the pixels, ordered by object; start : where each object's begin, and after the last."""

    values: NDArray[Any]
    start: Integers
    grid: Grid

    @cached_property
    def count(self) -> Integers:
        """Pixels of each object."""
        return np.diff(self.start)

    @cached_property
    def mean(self) -> Floats:
        """Mean of each object; of equal values exactly their value."""
        if not len(self.count):
            return np.zeros(0)
        first = self.values[self.start[:-1]].astype(float)
        return first + self._total(self.values - np.repeat(first, self.count)) / self.count

    @cached_property
    def sd(self) -> Floats:
        """Standard deviation of each object, divided by n."""
        return np.sqrt(self.central(2))

    @property
    def low(self) -> Floats:
        """Smallest value of each object."""
        return np.minimum.reduceat(self.values, self.start[:-1]) if len(self.count) else np.zeros(0)

    @property
    def high(self) -> Floats:
        """Largest value of each object."""
        return np.maximum.reduceat(self.values, self.start[:-1]) if len(self.count) else np.zeros(0)

    def mean_of(self, values: Floats) -> Floats:
        """Mean in each object of other values of the same pixels."""
        return self._total(values) / self.count

    def central(self, order: int) -> Floats:
        """Mean of (value - mean)^order of each object, order 2 or more."""
        power = self._centred**2  # products: numpy's general power is ten times slower
        for _ in range(order - 2):
            power *= self._centred
        return self._total(power) / self.count

    def quantiles(self, *shares: float) -> Floats:
        """Quantiles of each object, one column a share, linear between values as in numpy."""
        first, last = self.start[:-1, None], self.count[:, None] - 1
        place = np.array(shares) * last
        below = np.floor(place).astype(np.int64)
        low, high = self._sorted[first + below], self._sorted[first + np.minimum(below + 1, last)]
        return low + (high - low) * (place - below)

    def histogram(self, bins: int) -> Floats:
        """Share of each value 0..bins - 1 among the pixels of each object."""
        owner = np.repeat(np.arange(len(self.count)), self.count)
        counts = np.bincount(owner * bins + self.values, minlength=bins * len(self.count))
        return counts.reshape(-1, bins) / self.count[:, None]

    @cached_property
    def _centred(self) -> Floats:
        return self.values - np.repeat(self.mean, self.count)

    def _total(self, values: Floats) -> Floats:
        return np.add.reduceat(values, self.start[:-1]) if len(self.count) else np.zeros(0)

    @cached_property
    def _sorted(self) -> Floats:
        values = self.values.astype(float)
        for first, end in pairwise(self.start.tolist()):  # faster than one sort by object and value
            values[first:end].sort()
        return values


def pixels_of(channel: NDArray[Any], grid: Grid) -> Pixels:
    """The values of a channel in each object."""
    start = np.concatenate([[0], np.cumsum(grid.runs.total(grid.runs.length) if grid.count else [])]).astype(np.int64)
    return Pixels(channel.ravel()[grid.places], start, grid)
