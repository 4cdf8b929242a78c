"""How well linear classifiers predict samples that they have not seen, and whether two of them differ.

The local machines are support vector machines; whether two regions need different ones is judged by ridge regression on
the labels, whose errors on left-out samples are known in closed form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clearfold.embedding.spectral import Matrix

RIDGES = (0.01, 0.1, 1.0, 10.0)
"""Penalties that are tried, in units of the mean squared length of a sample."""
UNSURE = 0.3
"""A guess between minus and plus this, of -1 and 1, is counted in part: by half where it is 0."""
LEAST = 1e-9
"""Samples of less weight are not there."""


def left_out_errors(X: Matrix, target: Matrix, weight: Matrix, groups: Any = None) -> Matrix:
    """y_i - f_{-i}(x_i) of weighted ridge regression with intercept, the patient of i left out; 0 where weight is 0.

    e = (I - H_GG)^-1 r_G for the rows G of a patient; the penalty is the one of least weighted error.
    """
    result = np.zeros(len(target))
    rows = np.flatnonzero(weight > LEAST)
    root = np.sqrt(weight[rows])
    share = weight[rows] / weight[rows].sum()
    x = root[:, None] * (X[rows] - share @ X[rows])
    y = root * (target[rows] - share @ target[rows])
    values, U = _spectrum(x)
    unit = float((x**2).sum() / len(rows)) or 1.0
    best = np.inf
    for ridge in RIDGES:
        keep = values / (values + ridge * unit)
        errors = _left_out(U, keep, np.sqrt(share), y, None if groups is None else groups[rows])
        total = float((errors**2).sum())
        if total < best:
            best, result[rows] = total, errors / root
    return result


def _spectrum(x: Matrix) -> tuple[Matrix, Matrix]:
    """Squared singular values and left singular vectors, from the smaller of both products."""
    if x.shape[1] > x.shape[0]:
        values, U = np.linalg.eigh(x @ x.T)
        return np.maximum(values, 0.0), U
    values, V = np.linalg.eigh(x.T @ x)
    kept = values > 1e-10 * max(float(values[-1]), 1e-300)
    return values[kept], x @ (V[:, kept] / np.sqrt(values[kept]))


def _left_out(U: Matrix, keep: Matrix, mean: Matrix, y: Matrix, groups: Any) -> Matrix:
    residual = y - U @ (keep * (U.T @ y))
    if groups is None:
        leverage = (U**2) @ keep + mean**2
        return np.asarray(residual / np.maximum(1 - leverage, 1e-6))
    errors = np.empty(len(y))
    for patient in np.unique(groups):
        own = groups == patient
        hat = (U[own] * keep) @ U[own].T + np.outer(mean[own], mean[own])
        errors[own] = np.linalg.solve((1 + 1e-9) * np.eye(len(hat)) - hat, residual[own])  # 1e-9: never singular
    return errors


def strength(X: Matrix, target: Matrix, weight: Matrix, groups: Any = None) -> float:
    """sqrt(n) corr(y, left-out prediction) under the weights, n their effective number: what a region knows."""
    errors = left_out_errors(X, target, weight, groups)
    share = weight / weight.sum()
    guess = target - errors
    y, f = target - share @ target, guess - share @ guess
    variance = float((share @ y**2) * (share @ f**2))
    effective = float(weight.sum() ** 2 / (weight**2).sum())
    return float(np.sqrt(effective) * (share @ (y * f)) / np.sqrt(variance)) if variance > 1e-20 else 0.0


def difference(
    X: Matrix, target: Matrix, first: Matrix, second: Matrix, groups: Any = None, pooled: Matrix | None = None
) -> float:
    """z of the left-out samples gained when two sets (weights) have a classifier each, not one for both.

    Right or wrong is counted, not squared errors: a step along one feature is linear to a classifier, while regression
    would gain by cutting it. Positive: two are better. Gains are summed by patient; target is -1 or 1.
    pooled : `wrong` of both sets together, when it is at hand
    """
    one = wrong(X, target, first + second, groups) if pooled is None else pooled
    two = first * wrong(X, target, first, groups) + second * wrong(X, target, second, groups)
    gain = (first + second) * one - two
    if groups is not None:
        gain = np.asarray(np.bincount(groups, weights=gain), dtype=float)
    spread = float(np.sqrt((gain**2).sum()))
    return float(gain.sum()) / spread if spread > 0 else 0.0


def wrong(X: Matrix, target: Matrix, weight: Matrix, groups: Any = None) -> Matrix:
    """1 for each sample whose class is mistaken when it is left out, 0 if not, between the two where it is unsure."""
    guess = target - left_out_errors(X, target, weight, groups)
    return np.clip((1 - target * guess / UNSURE) / 2, 0.0, 1.0)
