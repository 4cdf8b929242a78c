"""One ranking: features brought to one scale, embedded, read; the same for all rows and for the rows of a round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import delayed
from sklearn.base import clone

from clearfold.cluster import parallel
from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError, LabelFreeWarning, warn
from clearfold.importance.coordinates import Fitted, fitted_coordinates
from clearfold.importance.formula import Loadings, centred, importances, loadings
from clearfold.importance.outcome import Outcome
from clearfold.importance.redundancy import penalised_ranking
from clearfold.importance.rounds import Null, Patients, counted_warnings, exceedance, permuted
from clearfold.selection.columns import in_range

LARGEST = 1e140
"""Squares of larger values could not be added up."""


@dataclass(frozen=True)
class Ranker:
    """How one ranking is made: embedding, method, standardize, redundancy as in `EmbeddingImportance`."""

    embedding: Any
    method: str
    standardize: bool
    redundancy: float

    def prepared(self, X: Matrix) -> Matrix:
        """Centred features, of standard deviation 1 if asked for; constant ones are 0."""
        if not self.standardize and np.abs(X).max() > LARGEST:
            raise InputError(
                f"values of up to {np.abs(X).max():.3g} came; their squares cannot be computed. Set standardize=True, "
                "or give features in other units."
            )
        X = centred(in_range(X) if self.standardize else X)
        if not X.any():
            raise InputError(
                "all features are constant: there is nothing to rank. Check that X holds features that vary."
            )
        return scaled(X) if self.standardize else X

    def read(self, X: Matrix, outcome: Outcome, groups: Any) -> tuple[Fitted, Loadings]:
        """Embed prepared features and read their loadings."""
        fitted = fitted_coordinates(clone(self.embedding), X, outcome)
        of = loadings(fitted.coordinates, X, directions=fitted.directions, weights=fitted.weights, groups=groups)
        if fitted.target_scale is not None:
            of = of.reading(fitted.target_scale)
        if of.A.shape[0] == 1:
            warn(
                "with one coordinate the labels have no influence on the importance of features: it is the label-free "
                "one. Set n_components to at least 2.",
                LabelFreeWarning,
            )
        return fitted, of

    def round(self, X: Matrix, outcome: Outcome, groups: Any, rows: Any) -> tuple[Matrix, Any, dict[str, int]]:
        """Shares and ranks from some rows alone, and the warnings on the way."""
        X, outcome, groups = X[rows], outcome.take(rows), None if groups is None else groups[rows]
        with counted_warnings() as counts:
            X = self.prepared(X)
            try:
                of = self.read(X, outcome, groups)[1]
            except InputError as error:
                raise InputError(f"in a round on three quarters of the patients ({len(X)} samples): {error}") from error
            share = importances(of, outcome.target, self.method)
        return share, penalised_ranking(share, X, self.redundancy), counts

    def rounds(self, X: Matrix, outcome: Outcome, groups: Any, rows: list[Any], n_jobs: int | None) -> Iterator[Any]:
        """`round` for every set of rows, as they are done; X itself is sent to other processes once."""
        return parallel(n_jobs, return_as="generator")(delayed(self.round)(X, outcome, groups, r) for r in rows)

    def null(
        self, X: Matrix, outcome: Outcome, patients: Patients, groups: Any, membership: Any, count: int, seed: int
    ) -> Null:
        """p-values of the shares; an embedding that saw the labels is fitted again for each permutation."""
        random = np.random.default_rng(seed)
        with counted_warnings():
            fitted, of = self.read(X, outcome, groups)
        seen = importances(of, outcome.target, self.method)
        if not fitted.supervised:
            return exceedance(seen, permuted(of, outcome, patients, self.method, count, random), membership)
        return exceedance(seen, self._refitted(X, outcome, patients, groups, count, random), membership)

    def _refitted(
        self, X: Matrix, outcome: Outcome, patients: Patients, groups: Any, count: int, random: np.random.Generator
    ) -> Iterator[Matrix]:
        for _ in range(count):
            other = outcome.permuted(patients.permutation(outcome, random))
            with counted_warnings():
                of = self.read(X, other, groups)[1]
            yield importances(of, other.target, self.method)[:, None]


def scaled(X: Matrix, weights: Matrix | None = None) -> Matrix:
    """Centred features divided by their (weighted) standard deviation; constant ones stay 0."""
    variance = np.average(np.square(X), axis=0, weights=weights)
    return np.divide(X, np.sqrt(variance), out=np.zeros_like(X), where=variance > 0)
