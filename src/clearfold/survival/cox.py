"""The risk model: features to one scale, the few that matter or coordinates, and a ridge Cox regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from clearfold.embedding import Isomap
from clearfold.embedding.spectral import Matrix
from clearfold.errors import ConvergenceError, InputError
from clearfold.importance import EmbeddingImportance
from clearfold.selection.columns import mean_and_deviation
from clearfold.survival.times import read_samples, read_times

MAX_STEPS = 100
FARTHEST = 1e140
"""Standard deviations from the mean; squares of more could not be added up."""


class CoxRisk(BaseEstimator):  # type: ignore[misc]
    """log hazard = z'b, b of a Cox regression with ridge penalty; `predict` gives it, larger is worse.

    Parameters
    ----------
    embedding : any embedding of clearfold; Isomap(n_components=5) if None
    n_features : z are the features of largest `EmbeddingImportance` on that embedding (FINE, Fig. 6: five); all of
        them if there are no more. None: z are the coordinates themselves
    penalizer : ridge penalty, as lifelines counts it: -loglik / n + penalizer / 2 * sum(b^2)

    Attributes
    ----------
    coefficients_ : b; support_ : indices of the features that were kept (None for coordinates)
    """

    def __init__(self, *, embedding: Any = None, n_features: int | None = 5, penalizer: float = 0.1) -> None:
        self.embedding = embedding
        self.n_features = n_features
        self.penalizer = penalizer

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from y = (time, event): two columns, or fields of these names; everything learns from these rows."""
        time, event = _columns(y)
        time, event = read_times(time, event)
        X = read_samples(X, len(time))
        if self.n_features is not None and (not isinstance(self.n_features, int) or self.n_features < 1):
            raise InputError(f"n_features={self.n_features!r} came; wanted is a whole number from 1, or None.")
        if not (isinstance(self.penalizer, int | float) and self.penalizer > 0):
            raise InputError(f"penalizer={self.penalizer!r} came; wanted is a number above 0.")
        self.n_features_in_ = X.shape[1]
        self._scale = _Scale.of(X)
        self._reduce(self._scale(X), time, event)
        z = self._reduced(X)
        self._level = _Scale.of(z)
        self.coefficients_ = ridge_cox(self._level(z), time, event, self.penalizer)
        return self

    def predict(self, X: Any) -> Matrix:
        """Log hazard of each row, 0 for the mean of the fitted rows."""
        check_is_fitted(self, "coefficients_")
        return self._level(self._reduced(read_samples(X, len(X)))) @ self.coefficients_

    def _reduce(self, Z: Matrix, time: Matrix, event: Any) -> None:
        self.support_: Any = None
        self.embedding_: Any = None
        if self.n_features is None:
            self.embedding_ = clone(Isomap(n_components=5) if self.embedding is None else self.embedding).fit(Z)
        elif self.n_features >= Z.shape[1]:
            self.support_ = np.arange(Z.shape[1])
        else:
            ranking = EmbeddingImportance(
                embedding=self.embedding, n_rounds=0, n_permutations=0, outcome="censored", random_state=0
            ).fit(Z, np.column_stack([time, event]))
            self.support_ = np.sort(np.argsort(ranking.ranking_, kind="stable")[: self.n_features])

    def _reduced(self, X: Matrix) -> Matrix:
        Z = self._scale(X)
        return Z[:, self.support_] if self.embedding_ is None else np.asarray(self.embedding_.transform(Z))


@dataclass(frozen=True)
class _Scale:
    """Mean 0 and standard deviation 1 on the fitted rows; constant features stay 0 there."""

    mean: Matrix
    spread: Matrix

    @classmethod
    def of(cls, X: Matrix) -> _Scale:
        mean, spread = mean_and_deviation(X)
        return cls(mean, np.where(spread > 0, spread, np.inf))  # a constant feature says nothing of new rows

    def __call__(self, X: Matrix) -> Matrix:
        with np.errstate(over="ignore"):
            return np.clip((X - self.mean) / self.spread, -FARTHEST, FARTHEST)


def ridge_cox(Z: Matrix, time: Matrix, event: Any, penalizer: float) -> Matrix:
    """Coefficients that minimise -loglik / n + penalizer / 2 * sum(b^2), by Newton's method; ties after Breslow.

    Written here because a permutation test asks for thousands of fits; a test holds it against lifelines.
    """
    order = np.argsort(-time, kind="stable")
    Z, time, event = Z[order], time[order], event[order]
    last = np.searchsorted(-time, -time, side="right") - 1  # the risk set of row i are rows 0 .. last[i]
    seen = np.flatnonzero(event)
    n, m = Z.shape
    b = np.zeros(m)
    loss, gradient, hessian = _cox(Z, last, seen, b)
    for _ in range(MAX_STEPS):
        slope = gradient / n + penalizer * b
        if np.abs(slope).max() < 1e-9:
            return b
        step = np.linalg.solve(hessian / n + penalizer * np.eye(m), slope)
        size, before = 1.0, loss / n + penalizer / 2 * (b @ b)
        while size > 1e-10:
            trial = b - size * step
            loss, gradient, hessian = _cox(Z, last, seen, trial)
            if loss / n + penalizer / 2 * (trial @ trial) <= before + 1e-14:
                break
            size /= 2
        b = trial
    raise ConvergenceError(
        "the Cox regression did not settle in 100 steps. Raise the penalizer, or use fewer features."
    )


def _cox(Z: Matrix, last: Any, seen: Any, b: Matrix) -> tuple[float, Matrix, Matrix]:
    """-loglik, its gradient and its Hessian; rows are in the order of falling time."""
    eta = Z @ b
    eta -= eta.max()
    w = np.exp(eta)
    at = last[seen]
    total = np.cumsum(w)[at]
    mean = np.cumsum(w[:, None] * Z, axis=0)[at] / total[:, None]
    # row i is at risk at every event whose risk set reaches it: the sum of 1 / total over those events
    share = np.bincount(at, 1 / total, minlength=len(Z))[::-1].cumsum()[::-1]
    loss = float(np.log(total).sum() - eta[seen].sum())
    hessian = (Z * (w * share)[:, None]).T @ Z - mean.T @ mean
    return loss, mean.sum(axis=0) - Z[seen].sum(axis=0), hessian


def _columns(y: Any) -> tuple[Any, Any]:
    named: Any = getattr(getattr(y, "dtype", None), "names", None) or getattr(y, "columns", ())
    if {"time", "event"} <= set(named):
        return y["time"], y["event"]
    table = np.asarray(y)
    if table.ndim != 2 or table.shape[1] != 2:
        raise InputError(f"y of shape {table.shape} came; wanted are two columns: time, event.")
    return table[:, 0], table[:, 1]
