"""Where sites are placed: the space is stretched along directions across which local classifiers disagree.

Vector quantisation sees only where samples lie. With features of one scale the direction that tells regions apart may
be one of many, and its cells then mix regions. So a tree of linear classifiers is grown first: a cut is kept when a
classifier on each side predicts left-out samples clearly better than one for both, and cuts through gaps are preferred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clearfold.embedding.spectral import Matrix
from clearfold.saliency.evidence import difference, wrong

CLEAR = 3.0
"""Standard errors by which two classifiers must beat one for a cut."""
CANDIDATES, AXES = 12, 5
"""Features and principal axes that are tried for a cut."""
SCREENED = 512
"""Features of the widest gap that are screened for those."""
LEAST_SIDE = 20
"""Samples on either side of a cut."""
MIXED = 0.5
"""The rarer class must have at least this part of its share on either side: a cut along the boundary has pure sides."""
STRETCH = 3.0
"""Spread along a direction that cuts, in units of the widest other one."""
MOST_ROWS = 1000


@dataclass(frozen=True)
class Space:
    """x + sum_d (s_d - 1) u_d (u_d x): orthonormal directions u (d, m) and factors s; none leaves x as it is."""

    directions: Matrix
    factors: Matrix

    def place(self, X: Matrix) -> Matrix:
        """Samples in the stretched space."""
        if not len(self.directions):
            return X
        return X + ((X @ self.directions.T) * (self.factors - 1)) @ self.directions


def plain_space(m: int) -> Space:
    """The space as it is."""
    return Space(np.zeros((0, m)), np.ones(0))


def labelled_space(X: Matrix, target: Matrix, most: int, random: np.random.Generator, groups: Any = None) -> Space:
    """Stretch along the cuts of a tree with at most `most` leaves, learned from centred X and centred labels."""
    rows = np.arange(len(X))
    if len(X) > MOST_ROWS:
        rows = np.sort(random.choice(len(X), MOST_ROWS, replace=False))
    cuts = _cuts(X[rows], target[rows], None if groups is None else groups[rows], int(np.log2(most)))
    if not cuts:
        return plain_space(X.shape[1])
    directions = np.linalg.qr(np.array(cuts).T)[0].T
    rest = X - (X @ directions.T) @ directions
    widest = np.sqrt(_largest_variance(rest))
    spread = (X @ directions.T).std(axis=0)
    return Space(directions, np.maximum(STRETCH * widest / np.maximum(spread, 1e-12), 1.0))


def _cuts(X: Matrix, target: Matrix, groups: Any, depth: int) -> list[Matrix]:
    """Unit directions of the cuts of a tree of this depth, each found in what the cuts before left."""
    if depth < 1 or len(X) < 2 * LEAST_SIDE:
        return []
    found = _best_cut(X, target, groups)
    if found is None:
        return []
    direction, side = found
    cuts = [direction]
    for part in (side, ~side):
        deeper = _cuts(X[part], target[part], None if groups is None else groups[part], depth - 1)
        known = np.linalg.qr(np.array(cuts).T)[0]
        cuts += [u for u in deeper if np.linalg.norm(u - known @ (known.T @ u)) > 0.5][:1]
    return cuts


def _best_cut(X: Matrix, target: Matrix, groups: Any) -> tuple[Matrix, Any] | None:
    """The cut of most evidence x gap; None when no cut is clear."""
    short, best, chosen = compact(X), 0.0, None
    pooled = wrong(short, target, np.ones(len(X)), groups)
    for direction, side, gap in _candidates(X, target, _principal(X)):
        if not _mixed(target, side):
            continue
        z = difference(short, target, side.astype(float), (~side).astype(float), groups, pooled)
        if z > CLEAR and z * gap**2 > best:
            best, chosen = z * gap**2, (direction, side)
    return chosen


def _mixed(target: Matrix, side: Any) -> bool:
    """Enough samples, and enough of both classes, on either side."""
    rare = np.sign(target) == (1 if (target > 0).mean() <= 0.5 else -1)
    shares = [min(rare[part].mean(), 1 - rare[part].mean()) for part in (side, ~side) if part.sum() >= LEAST_SIDE]
    return len(shares) == 2 and min(shares) >= MIXED * rare.mean()


def _candidates(X: Matrix, target: Matrix, axes: Matrix) -> list[tuple[Matrix, Any, float]]:
    """(direction, side, gap): features whose two sides differ most in how any feature goes with the label; axes."""
    sides, gaps = two_means(X)
    deviation = X.std(axis=0)
    scaled = np.divide(X - X.mean(axis=0), deviation, out=np.zeros_like(X), where=deviation > 0)
    wide = np.argsort(-gaps * (deviation > 0), kind="stable")[:SCREENED]
    signed = np.where(sides[:, wide], 1.0, -1.0)
    signed = (signed - signed.mean(axis=0)) * target[:, None]
    reach = np.abs(signed.T @ scaled).max(axis=1) * gaps[wide] ** 2
    first = wide[np.argsort(-reach, kind="stable")[:CANDIDATES]]
    cuts = [(np.eye(1, X.shape[1], j)[0], sides[:, j], float(gaps[j])) for j in first if deviation[j] > 0]
    along = X @ axes.T
    sides, gaps = two_means(along)
    return cuts + [(u, sides[:, i], float(gaps[i])) for i, u in enumerate(axes)]


def two_means(X: Matrix) -> tuple[Any, Matrix]:
    """For each column the side (n, m) of the best cut in two, and the share of variance between both sides."""
    n = len(X)
    order = np.sort(X - X.mean(axis=0), axis=0)
    left = np.arange(1, n)[:, None]
    between = np.cumsum(order, axis=0)[:-1] ** 2 / (left * (1 - left / n))
    at = between.argmax(axis=0)
    columns = np.arange(X.shape[1])
    threshold = (order[at, columns] + order[at + 1, columns]) / 2 + X.mean(axis=0)
    total = np.maximum((order**2).sum(axis=0), 1e-300)
    return threshold < X, np.minimum(between[at, columns] / total, 1.0)


def compact(X: Matrix) -> Matrix:
    """X in at most n coordinates, without loss: linear classifiers with a ridge see the same."""
    if X.shape[1] <= X.shape[0]:
        return X
    centred = X - X.mean(axis=0)
    values, U = np.linalg.eigh(centred @ centred.T)
    kept = values > 1e-10 * max(float(values[-1]), 1e-300)
    return np.asarray(U[:, kept] * np.sqrt(values[kept]))


def _principal(X: Matrix) -> Matrix:
    """First principal axes (axes, m)."""
    centred = X - X.mean(axis=0)
    if X.shape[1] <= X.shape[0]:
        return np.asarray(np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :AXES].T)
    values, U = np.linalg.eigh(centred @ centred.T)
    kept = np.flatnonzero(values > 1e-10 * max(float(values[-1]), 1e-300))[::-1][:AXES]
    return (U[:, kept] / np.sqrt(values[kept])).T @ centred


def _largest_variance(X: Matrix) -> float:
    small = X @ X.T if X.shape[1] > X.shape[0] else X.T @ X
    return float(np.linalg.eigvalsh(small)[-1] / len(X))
