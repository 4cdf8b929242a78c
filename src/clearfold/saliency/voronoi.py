"""Random Voronoi partitions: sites by restarted vector quantisation, moved at random; cells by the nearest site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clearfold.embedding.spectral import Matrix

FEW, MANY, STEPS = 10, 100, 50
EFFORT = 200_000
"""Numbers that all starts together may touch."""


def nearest_site(X: Matrix, sites: Matrix) -> Any:
    """cell(x) = argmin_i |x - s_i|; a tie goes to the lowest index."""
    return squared_distances(X, sites).argmin(axis=1)


def squared_distances(X: Matrix, sites: Matrix) -> Matrix:
    """|x - s|^2 for every sample (row) and site (column), at least 0.

    Few numbers are subtracted one by one, so that ties are exact; many go through products of matrices.
    """
    if X.size * len(sites) <= 1_000_000:
        return np.asarray(((X[:, None] - sites) ** 2).sum(axis=2))
    squared = (X**2).sum(axis=1)[:, None] - 2 * X @ sites.T + (sites**2).sum(axis=1)
    return np.asarray(np.maximum(squared, 0.0))


def quantised_sites(X: Matrix, count: int, random: np.random.Generator, restarts: int | None = None) -> Matrix:
    """Sites of the least quantisation error among several starts: `count` rows, then Lloyd steps until none moves.

    Unless told, small tables get more starts, so that every seed ends at the same sites.
    """
    best, least = X[:count], np.inf
    for _ in range(restarts or max(FEW, min(MANY, EFFORT // X.size))):
        sites = _lloyd(X, X[_spread_rows(X, count, random)])
        error = float(squared_distances(X, sites).min(axis=1).sum())
        if error < least * (1 - 1e-9):
            best, least = sites, error
    return best


def _spread_rows(X: Matrix, count: int, random: np.random.Generator) -> list[int]:
    """Rows drawn with a chance that grows with the squared distance from those drawn before."""
    rows = [int(random.integers(len(X)))]
    near = ((X - X[rows[0]]) ** 2).sum(axis=1)
    while len(rows) < count:
        total = near.sum()
        rows.append(int(random.choice(len(X), p=near / total if total > 0 else None)))
        near = np.minimum(near, ((X - X[rows[-1]]) ** 2).sum(axis=1))
    return rows


def _lloyd(X: Matrix, sites: Matrix) -> Matrix:
    """A site moves to the mean of its cell; one whose cell is empty stays."""
    cells = nearest_site(X, sites)
    for _ in range(STEPS):
        hot = np.equal.outer(np.arange(len(sites)), cells).astype(float)
        count = hot.sum(axis=1)
        sites = np.where(count[:, None] > 0, hot @ X / np.maximum(count, 1)[:, None], sites)
        before, cells = cells, nearest_site(X, sites)
        if (cells == before).all():
            break
    return sites


@dataclass(frozen=True)
class Partitions:
    """Moved sites (perturbations x sites x m) and the cell of every sample in each (perturbations x n)."""

    sites: Matrix
    cells: Any

    @classmethod
    def drawn(cls, X: Matrix, sites: Matrix, count: int, amplitude: float, random: np.random.Generator) -> Partitions:
        """Sites + U(-amplitude, amplitude) for each coordinate, redrawn for each of `count` perturbations."""
        moved = sites + random.uniform(-amplitude, amplitude, (count, *sites.shape))
        flat = moved.reshape(-1, X.shape[1])
        distances = squared_distances(X, flat).reshape(len(X), count, len(sites))
        return cls(moved, distances.argmin(axis=2).T)

    def nearest(self, X: Matrix, useful: Any) -> Any:
        """For new samples and each perturbation the nearest useful site, as a number over all sites; -1 for none.

        useful : perturbations x sites, whether a ranking was learned in that cell
        """
        count, k, m = self.sites.shape
        result = np.empty((len(X), count), dtype=np.intp)
        for start in range(0, len(X), 1000):
            rows = slice(start, start + 1000)
            distances = squared_distances(X[rows], self.sites.reshape(-1, m)).reshape(-1, count, k)
            distances = np.where(useful, distances, np.inf)
            result[rows] = distances.argmin(axis=2) + k * np.arange(count)
        result[:, ~useful.any(axis=1)] = -1
        return result
