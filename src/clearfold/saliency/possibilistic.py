"""Graded possibilistic clustering with annealing: between probabilities that sum to 1 and free typicalities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from clearfold.embedding.estimator import checked
from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError

COINCIDE = 1e-3
"""Centres nearer than this share of sqrt(beta) are one."""
STEPS, TOLERANCE = 300, 1e-7
"""Most steps at one width, and the change of a centre's mixture at which it has settled."""


def log_memberships(squared: Matrix, beta: float | Matrix, alpha: float) -> Matrix:
    """log u, u = v / (sum_j v_j)^alpha, v = exp(-squared / beta): alpha 1 probabilistic, 0 possibilistic.

    squared : (n, clusters) squared distances; beta : one width, or one for each cluster
    """
    v = -squared / beta
    return v - alpha * _log_sum(v, axis=1)


def _log_sum(logs: Matrix, axis: int) -> Matrix:
    """log sum exp along an axis, which is kept; scipy's costs ten times as much on tables this small."""
    largest = logs.max(axis=axis, keepdims=True)
    return np.asarray(largest + np.log(np.exp(logs - largest).sum(axis=axis, keepdims=True)))


def annealing_schedule(start: float = 0.1, end: float = 0.01, steps: int = 10) -> Matrix:
    """Widths from start to end, each the same part of the one before."""
    return np.geomspace(start, end, steps)


@dataclass(frozen=True)
class Cloud:
    """Weighted vectors; centres are mixtures of them, so that distances need the vectors or only their products."""

    points: Matrix
    gram: Matrix | None
    weight: Matrix

    @classmethod
    def of(cls, Z: Matrix, weight: Matrix | None = None) -> Cloud:
        """In Gram space when the vectors are longer than they are many: the same result, at the cost of n."""
        Z = Z - Z.mean(axis=0)
        return cls(Z, Z @ Z.T if Z.shape[1] > len(Z) else None, np.ones(len(Z)) if weight is None else weight)

    def squared(self, mixture: Matrix) -> Matrix:
        """|z_k - y_j|^2 (n, clusters) for centres y = mixture @ Z."""
        if self.gram is None:
            centres = mixture @ self.points
            own, cross, other = (self.points**2).sum(axis=1), self.points @ centres.T, (centres**2).sum(axis=1)
        else:
            cross = self.gram @ mixture.T
            own, other = np.diag(self.gram), np.einsum("jk,kj->j", mixture, cross)
        return np.asarray(np.maximum(own[:, None] - 2 * cross + other, 0.0))

    def between(self, mixture: Matrix) -> Matrix:
        """Squared distances of the centres from each other."""
        product = mixture @ (self.points @ self.points.T if self.gram is None else self.gram) @ mixture.T
        own = np.diag(product)
        return np.asarray(np.maximum(own[:, None] - 2 * product + own, 0.0))

    def farthest_first(self, count: int, first: int) -> Matrix:
        """Mixtures of one vector each: every next one is the farthest from those before."""
        size = len(self.weight)
        chosen = [first]
        near = self.squared(np.eye(size)[chosen])[:, 0]
        while len(chosen) < min(count, size) and near.max() > 0:
            chosen.append(int(near.argmax()))
            near = np.minimum(near, self.squared(np.eye(size)[chosen[-1:]])[:, 0])
        return np.eye(size)[chosen]


def settle(cloud: Cloud, mixture: Matrix, beta: float | Matrix, alpha: float, tolerance: float = TOLERANCE) -> Matrix:
    """Repeat y_j = sum u z / sum u until no centre moves; the centres as mixtures."""
    for _ in range(STEPS):
        log_u = log_memberships(cloud.squared(mixture), beta, alpha) + np.log(cloud.weight)[:, None]
        after = np.exp(log_u - _log_sum(log_u, axis=0)).T
        moved = np.abs(after - mixture).sum(axis=1).max()
        mixture = after
        if moved < tolerance:
            break
    return mixture


def distinct(cloud: Cloud, mixture: Matrix, beta: float) -> Matrix:
    """One of each set of coincident centres."""
    near = cloud.between(mixture) < COINCIDE * beta
    return mixture[[j for j in range(len(mixture)) if not near[j, :j].any()]]


def anneal(
    cloud: Cloud, mixture: Matrix, betas: Matrix, alpha: float, split: bool = True, tolerance: float = TOLERANCE
) -> list[Matrix]:
    """Centres at each width; between widths those that coincide begin anew where the centres reach least."""
    path, count = [], len(mixture)
    for beta in betas:
        mixture = settle(cloud, mixture, beta, alpha, tolerance)
        path.append(mixture)
        if split:
            kept = distinct(cloud, mixture, beta)
            near = cloud.squared(kept).min(axis=1)
            fresh = np.argsort(-near, kind="stable")[: count - len(kept)]
            mixture = np.vstack([kept, np.eye(len(near))[fresh[near[fresh] > 0]]])
    return path


class GradedPossibilisticClustering(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """u_jk = v_jk / (sum_j v_jk)^alpha, v_jk = exp(-|z_k - y_j|^2 / beta), y_j = sum u z / sum u, beta annealed.

    Masulli and Rovetta's clustering: alpha=1 gives memberships that sum to 1, alpha=0 free typicalities that leave
    outliers alone, values between a compromise. The number of clusters is found: centres that coincide are merged.

    Parameters
    ----------
    n_clusters : centres at the start, at most one for each row
    alpha : 0 possibilistic to 1 probabilistic
    beta : final width, in the unit of squared distances; beta_start : the first one; n_steps : widths in between
    init : "farthest" (every next start is the row farthest from those before), "random", or an array of centres' rows
    split : centres that coincide at one width begin anew at the next, where the others reach least
    random_state : seed of the first row (farthest) or all (random)

    Attributes
    ----------
    cluster_centers_ : (clusters, m); memberships_ : (n, clusters); labels_ : (n,) the largest membership
    n_clusters_ : distinct centres

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.r_[np.zeros((5, 2)), np.ones((5, 2)), [[9.0, 9.0]]] + np.linspace(0, 0.1, 11)[:, None]
    >>> GradedPossibilisticClustering(n_clusters=6, alpha=0.5).fit(Z).n_clusters_
    3
    """

    def __init__(
        self,
        *,
        n_clusters: int = 20,
        alpha: float = 0.7,
        beta: float = 0.01,
        beta_start: float = 0.1,
        n_steps: int = 10,
        init: Any = "farthest",
        split: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.beta = beta
        self.beta_start = beta_start
        self.n_steps = n_steps
        self.init = init
        self.split = split
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the centres of the rows of X (n, m), each counted by its weight."""
        X = _dense(checked(self, X, reset=True, least=2))
        self._check(len(X), sample_weight)
        cloud = Cloud.of(X, None if sample_weight is None else np.asarray(sample_weight, dtype=float))
        betas = annealing_schedule(self.beta_start, self.beta, self.n_steps)
        last = anneal(cloud, self._start(cloud), betas, self.alpha, self.split)[-1]
        mixture = distinct(cloud, last, self.beta)
        self.cluster_centers_ = mixture @ X
        self.all_centers_ = last @ X
        self.memberships_ = np.exp(log_memberships(cloud.squared(mixture), self.beta, self.alpha))
        self.labels_ = self.memberships_.argmax(axis=1)
        self.n_clusters_ = len(mixture)
        return self

    def membership(self, X: Any) -> Matrix:
        """Memberships of new rows (n_new, clusters)."""
        check_is_fitted(self, "cluster_centers_")
        X = _dense(checked(self, X, reset=False))
        squared = ((X[:, None] - self.cluster_centers_) ** 2).sum(axis=2)
        return np.asarray(np.exp(log_memberships(squared, self.beta, self.alpha)))

    def predict(self, X: Any) -> Any:
        """The cluster of largest membership for each new row."""
        return self.membership(X).argmax(axis=1)

    def _start(self, cloud: Cloud) -> Matrix:
        size = len(cloud.weight)
        random = check_random_state(self.random_state)
        if not isinstance(self.init, str):
            return np.eye(size)[np.asarray(self.init, dtype=int)]
        if self.init == "random":
            return np.eye(size)[random.choice(size, min(self.n_clusters, size), replace=False)]
        return cloud.farthest_first(self.n_clusters, int(random.randint(size)))

    def _check(self, size: int, weight: Any) -> None:
        if not 0 <= self.alpha <= 1:
            raise InputError(f"alpha={self.alpha!r} came; a number from 0 (possibilistic) to 1 is wanted.")
        if not 0 < self.beta <= self.beta_start:
            raise InputError(
                f"beta={self.beta!r} and beta_start={self.beta_start!r} came; 0 < beta <= beta_start is wanted."
            )
        if self.n_clusters < 1 or self.n_steps < 1:
            raise InputError(
                f"n_clusters={self.n_clusters!r} and n_steps={self.n_steps!r} came; both are wanted as 1 or more."
            )
        if isinstance(self.init, str) and self.init not in ("farthest", "random"):
            raise InputError(f"init={self.init!r} came; 'farthest', 'random' or row numbers are wanted.")
        if weight is not None and (np.shape(weight) != (size,) or not (np.asarray(weight) > 0).all()):
            raise InputError(f"weights of shape {np.shape(weight)} came; {size} numbers above 0 are wanted.")


def _dense(X: Any) -> Matrix:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)
