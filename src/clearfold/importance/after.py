"""Importance after the fact: for coordinates that already exist, and over several embeddings at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from clearfold.embedding import PCA, Isomap, KernelPCA, LaplacianEigenmap, LocallyLinearEmbedding
from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError
from clearfold.importance.coordinates import checked_features, same_rows
from clearfold.importance.estimator import EmbeddingImportance
from clearfold.importance.formula import importances, in_safe_range, loadings
from clearfold.importance.outcome import read_outcome
from clearfold.importance.ranker import Ranker, scaled
from clearfold.selection.columns import in_range

if TYPE_CHECKING:
    import pandas as pd

EMBEDDINGS = {
    "PCA": PCA(n_components=5),
    "KernelPCA": KernelPCA(n_components=5),
    "Isomap": Isomap(n_components=5, n_neighbors=10),
    "LaplacianEigenmap": LaplacianEigenmap(n_components=5, n_neighbors=10),
    "LocallyLinearEmbedding": LocallyLinearEmbedding(n_components=5, n_neighbors=10),
}


def fine_importance(
    coordinates: Any,
    X: Any,
    y: Any,
    *,
    method: str = "fine",
    standardize: bool = False,
    directions: Any = None,
    sample_weight: Any = None,
) -> Matrix:
    """Share of each feature in what given coordinates (UMAP, t-SNE, one's own) say about y; the shares sum to 1.

    X is used as it is, centred; set standardize=True unless its features are on one scale.

    Parameters
    ----------
    coordinates : (n, h), of the rows of X
    y : labels, values, or two columns (time, event)
    method : "fine", "coherent", "gradient" or "auto"
    directions : (m, h) in place of the loadings, where the problem has its own; with the weights of partial least
        squares the shares are VIP^2 / m, VIP as published for it
    sample_weight : (n,), importance in the inner product a'diag(w)b, of weighted PCA or a generalised eigenproblem

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.manifold import TSNE
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(abs(fine_importance(TSNE(random_state=0).fit_transform(X), X, y).sum() - 1) < 1e-12)
    True
    """
    X = checked_features(BaseEstimator(), X)
    T = _checked_coordinates(coordinates, X)
    outcome = read_outcome(y, len(X))
    weights = _checked_weights(sample_weight, len(X))
    if directions is not None and np.shape(directions) != (X.shape[1], T.shape[1]):
        raise InputError(
            f"directions of shape {np.shape(directions)} came; {(X.shape[1], T.shape[1])} is wanted, one row for each "
            "feature and one column for each coordinate."
        )
    X = Ranker(None, method, False, 0.0).prepared(in_range(X) if standardize else in_safe_range(X))
    if standardize:
        X = scaled(X if weights is None else X - np.average(X, axis=0, weights=weights), weights)
    return importances(loadings(T, X, directions=directions, weights=weights), outcome.target, method)


def _checked_coordinates(coordinates: Any, X: Matrix) -> Matrix:
    try:
        T = checked_features(BaseEstimator(), coordinates)
    except InputError as error:
        raise InputError(f"coordinates cannot be used: {error}") from error
    same_rows(T, X)
    if np.ptp(in_safe_range(T), axis=0).max() == 0:
        raise InputError(
            "coordinates that do not vary came; nothing can be read from them. Pass an embedding's coordinates."
        )
    return T


def _checked_weights(weights: Any, n_samples: int) -> Matrix | None:
    if weights is None:
        return None
    table = np.asarray(weights, dtype=float)
    if table.shape != (n_samples,) or not np.isfinite(table).all() or (table < 0).any() or not table.any():
        raise InputError(
            f"sample_weight of shape {table.shape} came; {n_samples} finite numbers are wanted, not negative and "
            "not all 0."
        )
    return table


@dataclass(frozen=True)
class Agreement:
    """Rankings of the same features by several embeddings, and how far they agree.

    table : DataFrame feature, one column of ranks for each embedding, mean_rank, times_in_top; best first
    correlation : Spearman's rank correlation of every two embeddings; overlap : Jaccard of their first features
    """

    table: pd.DataFrame
    correlation: pd.DataFrame
    overlap: pd.DataFrame
    top: int

    def __repr__(self) -> str:
        off = ~np.eye(len(self.overlap), dtype=bool)
        mean = float(self.overlap.to_numpy()[off].mean()) if off.any() else 1.0
        return (
            f"Agreement({len(self.overlap)} embeddings; Jaccard of the first {self.top} features {mean:.2f} on average)"
        )

    def plot(self, ax: Any = None) -> Any:
        """Ranks of the first features under each embedding."""
        from clearfold.plot import rank_table

        return rank_table(self.table.head(self.top), list(self.overlap.columns), ax=ax)


def agreement(
    X: Any, y: Any, embeddings: Any = None, *, groups: Any = None, method: str = "auto", top: int = 20
) -> Agreement:
    """Rank the features under PCA, kernel PCA, Isomap, Laplacian eigenmap and LLE (or others) and compare.

    Parameters
    ----------
    embeddings : names and embeddings; the five with 5 coordinates and 10 neighbours if None
    top : number of first features that are compared
    """
    import pandas as pd

    embeddings = EMBEDDINGS if embeddings is None else dict(embeddings)
    if not embeddings or top < 1:
        raise InputError(f"{len(embeddings)} embeddings and top={top} came; at least one of each is wanted.")
    ranks, names = {}, None
    for name, embedding in embeddings.items():
        one = EmbeddingImportance(embedding=embedding, method=method, n_rounds=0, n_permutations=0).fit(
            X, y, groups=groups
        )
        ranks[name], names = one.ranking_, one.table_["feature"]
    frame = pd.DataFrame(ranks)
    top = min(top, len(frame))
    inside = (frame <= top).to_numpy(dtype=float)
    common = inside.T @ inside
    table = frame.assign(mean_rank=frame.mean(axis=1), times_in_top=inside.sum(axis=1).astype(int))
    table.insert(0, "feature", names)
    return Agreement(
        table.sort_values(["mean_rank"], kind="stable", ignore_index=True),
        frame.corr(),
        pd.DataFrame(common / (2 * top - common), index=frame.columns, columns=frame.columns),
        top,
    )
