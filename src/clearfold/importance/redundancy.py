"""Features that say the same: a penalty in the ranking, and groups of interchangeable ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from clearfold.embedding.spectral import Matrix
from clearfold.selection import ranking

if TYPE_CHECKING:
    import pandas as pd

GREEDY = 200
"""Features that the penalty puts in order; the others follow by importance."""


def penalised_ranking(importance: Matrix, X: Matrix, penalty: float) -> Any:
    """Ranks: greedily the largest importance_j (1 - penalty max |corr(x_j, chosen)|) (FINE names it as future work)."""
    if penalty == 0:
        return ranking(importance)
    unit = _unit(X)
    limit = min(GREEDY, len(importance))
    overlap = np.zeros(len(importance))
    left = np.ones(len(importance), dtype=bool)
    chosen = []
    for _ in range(limit):
        value = np.where(left, importance * (1 - penalty * overlap), -1.0)
        best = int(value.argmax())
        chosen.append(best)
        left[best] = False
        overlap = np.maximum(overlap, np.abs(unit[:, best] @ unit))
    rest = np.flatnonzero(left)
    order = np.concatenate([chosen, rest[np.argsort(-importance[rest], kind="stable")]]).astype(int)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks


def interchangeable(table: pd.DataFrame, X: Matrix, *, top: int = 50, correlation: float = 0.9) -> pd.DataFrame:
    """Groups among the first features whose members correlate by at least `correlation` with each other.

    One row for each group: leading feature, members, their number, their importance together.
    """
    import pandas as pd

    order = table["rank"].to_numpy().argsort(kind="stable")[:top]
    unit = _unit(X[:, order])
    group = np.ones(1, dtype=int)
    if len(order) > 1:
        apart = np.clip(1 - np.abs(unit.T @ unit), 0, None)
        np.fill_diagonal(apart, 0)
        group = fcluster(linkage(squareform(apart, checks=False), "complete"), 1 - correlation + 1e-9, "distance")
    names, importance = table["feature"].to_numpy()[order], table["importance"].to_numpy()[order]
    rows = []
    for label in dict.fromkeys(group):
        members = np.flatnonzero(group == label)
        rows.append((names[members[0]], len(members), importance[members].sum(), list(names[members])))
    return pd.DataFrame(rows, columns=["feature", "n_members", "importance", "members"])


def _unit(X: Matrix) -> Matrix:
    centred = X - X.mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    return np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
