"""Coordinates, and what goes with them, from any embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from clearfold.embedding import GraphEmbedding
from clearfold.embedding.estimator import checked
from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError
from clearfold.importance.outcome import Outcome


@dataclass(frozen=True)
class Fitted:
    """A fitted embedding, its coordinates, and the inner product and directions of its own problem.

    directions : m x h where the problem has its own (weights of PLS); weights : sample weights of the inner product
    supervised : whether the coordinates depend on the outcome, so that permuted labels would move them
    target_scale : standard deviations by which the problem divides the columns of the outcome
    """

    estimator: Any
    coordinates: Matrix
    directions: Matrix | None = None
    weights: Matrix | None = None
    supervised: bool = False
    target_scale: Matrix | None = None


def fitted_coordinates(embedding: Any, X: Matrix, outcome: Outcome) -> Fitted:
    """Fit an embedding; partial least squares and canonical correlation also see the outcome."""
    if _takes_outcome(embedding):
        embedding.fit(X, outcome.target)
        own = type(embedding).__name__ == "PLSRegression"
        scale = outcome.target.std(axis=0) if own and embedding.scale else None
        directions = embedding.x_weights_ if own else None
        return Fitted(embedding, np.asarray(embedding.transform(X)), directions, supervised=True, target_scale=scale)
    coordinates = embedding.fit_transform(X)
    weights = embedding.degrees_ if isinstance(embedding, GraphEmbedding) else None
    return Fitted(embedding, np.asarray(getattr(embedding, "embedding_", coordinates), dtype=float), weights=weights)


def checked_features(estimator: Any, X: Any) -> Matrix:
    """Finite dense numbers with at least two rows; names remembered."""
    X = checked(estimator, X, reset=True, least=2)
    return X.toarray() if sparse.issparse(X) else X


def same_rows(coordinates: Matrix, X: Matrix) -> None:
    """Coordinates and features must speak of the same samples."""
    if coordinates.ndim != 2 or len(coordinates) != len(X):
        raise InputError(
            f"coordinates of shape {coordinates.shape} came with features of shape {X.shape}; "
            "both want one row for each sample. Pass the coordinates of these very rows."
        )


def _takes_outcome(embedding: Any) -> bool:
    return any(kind.__name__ == "_PLS" for kind in type(embedding).__mro__)
