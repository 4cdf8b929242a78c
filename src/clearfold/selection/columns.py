"""The arithmetic of the filters, over blocks of columns: moments by class, best splits, correlations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Values: TypeAlias = NDArray[np.float64]

VARIANCE_FLOOR = 1e-12
"""A variance within classes counts as at least this share of the total, so that no value is infinite."""
REDUNDANCY_FLOOR = 1e-3
"""A mean correlation counts as at least this much, so that relevance is never divided by about nothing."""
CONSTANT = 1e-13
"""Columns that differ by no more than this share of their size are constant."""
BLOCK = 1024
"""Columns worked on at a time."""


@dataclass(frozen=True)
class Moments:
    """For each class (row) and feature (column): count, mean, squares around it; and the total variance."""

    counts: Values
    means: Values
    squares: Values
    variance: Values

    @classmethod
    def of(cls, block: Values, codes: NDArray[np.intp]) -> Moments:
        """The moments of a block of columns."""
        x = _levelled(block)
        parts = [x[codes == code] for code in range(int(codes.max()) + 1)]
        means = np.array([part.mean(axis=0) for part in parts])
        squares = np.array([((part - mean) ** 2).sum(axis=0) for part, mean in zip(parts, means, strict=True)])
        return cls(np.array([[float(len(part))] for part in parts]), means, squares, (x**2).mean(axis=0))

    def floored(self, variance: Values) -> Values:
        """A divisor: not below its floor, and 1 for a constant feature."""
        return np.where(self.variance > 0, np.maximum(variance, VARIANCE_FLOOR * self.variance), 1.0)


def welch_f(of: Moments) -> Values:
    """Welch (1951): F of means weighted by n_c / v_c."""
    weight = of.counts / of.floored(of.squares / (of.counts - 1))
    share = weight / weight.sum(axis=0)
    between = (weight * (of.means - (share * of.means).sum(axis=0)) ** 2).sum(axis=0)
    k = len(of.counts)
    spread = ((1 - share) ** 2 / (of.counts - 1)).sum(axis=0)
    return np.asarray(between / (k - 1) / (1 + 2 * (k - 2) / (k**2 - 1) * spread), dtype=float)


def fisher_two(of: Moments) -> Values:
    """(m1 - m2)^2 / (v1 + v2), variances divided by n."""
    within = of.floored((of.squares / of.counts).sum(axis=0))
    return np.asarray((of.means[0] - of.means[1]) ** 2 / within, dtype=float)


def between_by_within(X: Any, codes: NDArray[np.intp]) -> Values:
    """Sum of squares between classes over the one within them."""

    def ratio(block: Values) -> Values:
        of = Moments.of(block, codes)
        between = (of.counts * of.means**2).sum(axis=0)  # the means are around 0
        return np.asarray(between / len(codes) / of.floored(of.squares.sum(axis=0) / len(codes)), dtype=float)

    return by_block(X, ratio)


def best_split(x: Values, codes: NDArray[np.intp], n_classes: int) -> Values:
    """Class counts left of every threshold, for all columns at once; equal values are never split."""
    n = len(codes)
    order = np.argsort(x, axis=0, kind="stable")
    ordered = np.take_along_axis(x, order, axis=0)
    label = codes[order][:-1]
    left = np.arange(1, n)[:, None]
    purity = np.zeros(label.shape)
    for code, total in enumerate(np.bincount(codes, minlength=n_classes)):
        count = np.cumsum(label == code, axis=0)
        purity += count**2 / left + (total - count) ** 2 / (n - left)
    before = (np.bincount(codes) ** 2).sum() / n
    gain = np.where(ordered[1:] > ordered[:-1], purity - before, 0.0) / n
    return np.asarray(np.maximum(gain.max(axis=0), 0.0), dtype=float)


def correlation_with(X: Any, outcome: Values) -> Values:
    """|corr(x_j, outcome)|."""
    target = _unit(outcome[:, None])[:, 0]
    return by_block(X, lambda x: np.minimum(np.abs(target @ _unit(x)), 1.0))


def relevant_first(relevance: Values, unit: Values, n_features: int) -> list[int]:
    """Indices in the order chosen: one matrix-vector product for each."""
    chosen: list[int] = []
    redundancy = np.zeros(len(relevance))
    gain = relevance
    for step in range(1, 1 + min(n_features, int(np.count_nonzero(relevance)))):
        chosen.append(int(np.argmax(steady(gain))))
        redundancy += np.abs(unit[:, chosen[-1]] @ unit)
        gain = relevance / np.maximum(redundancy / step, REDUNDANCY_FLOOR)
        gain[chosen] = -1.0
    return chosen


def _levelled(block: Values) -> Values:
    """Columns around 0, a constant one exactly 0; scaled by powers of two, so that squares stay in range."""
    x = in_range(block)
    x = in_range(x - x[0])
    return np.asarray(x - x.mean(axis=0), dtype=float)


def in_range(table: Values) -> Values:
    """Columns times powers of two, largest modulus 1/2 to 1: no digit is lost, and no square leaves the range."""
    return np.asarray(np.ldexp(table, -binary_exponent(table)), dtype=float)


def binary_exponent(table: Values) -> NDArray[np.intc]:
    """e of each column, its largest modulus from 2^(e-1) to 2^e."""
    return np.frexp(np.abs(table).max(axis=0))[1]


def mean_and_deviation(table: Values) -> tuple[Values, Values]:
    """Mean and standard deviation of each column, of any size; 0 where a column is constant up to rounding."""
    exponent = binary_exponent(table)
    x = np.ldexp(table, -exponent)
    mean, largest = x.mean(axis=0), np.abs(x).max(axis=0)
    x -= mean
    constant = np.abs(x).max(axis=0) <= CONSTANT * largest
    deviation = np.where(constant, 0.0, np.sqrt(np.square(x).mean(axis=0)))
    return np.ldexp(mean, exponent), np.ldexp(deviation, exponent)


def _unit(block: Values) -> Values:
    x = _levelled(block)
    length = np.sqrt((x**2).sum(axis=0))
    return np.asarray(x / np.where(length > 0, length, 1.0), dtype=float)


def steady(values: Values) -> Values:
    """Values that differ by rounding alone made equal: 12 digits of the mantissa."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa, 12), exponent)


def _blocks(X: Any) -> Iterable[Values]:
    """Dense blocks of columns."""
    dense = not sparse.issparse(X)
    columns = X if dense else sparse.csc_array(X)
    for start in range(0, X.shape[1], BLOCK):
        block = columns[:, start : start + BLOCK]
        yield np.ascontiguousarray(block if dense else block.toarray())


def by_block(X: Any, function: Callable[[Values], Values]) -> Values:
    """A function of dense blocks of columns, over all columns."""
    return np.concatenate([function(block) for block in _blocks(X)])


def orders(X: Any) -> Values:
    """The place of each value among the distinct ones of its column: all that a tree sees of it."""

    def places(block: Values) -> Values:
        rising = np.sort(block, axis=0)
        steps = np.vstack([np.zeros(block.shape[1]), np.cumsum(rising[1:] > rising[:-1], axis=0)])
        result = np.empty_like(block)
        np.put_along_axis(result, np.argsort(block, axis=0, kind="stable"), steps, axis=0)
        return result

    return np.hstack([places(block) for block in _blocks(X)])


def unit_columns(X: Any) -> Values:
    """Centred columns of length 1, 0 where constant."""
    return np.hstack([_unit(block) for block in _blocks(X)])
