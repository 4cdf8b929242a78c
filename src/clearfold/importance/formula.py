"""Shares of the features in what coordinates say about an outcome: one formula, three predictors.

With P = Z'X (rows: coordinates) and a predictor f of y on the coordinates, the importance of feature j is proportional
to p_j' C p_j, p_j the column of P and C the mean of grad f grad f' in units of Z. `fine` keeps only the diagonal, with
each coordinate's own normalisation; `coherent` is the linear f; `gradient` a smooth f that sees rings and interactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg
from scipy.spatial.distance import cdist

from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError

METHODS = ("auto", "fine", "coherent", "gradient")
SMOOTH_COORDINATES = (2, 4, 8)
SMOOTH_BANDWIDTHS = (0.5, 1.0)
RIDGES = np.logspace(-6, 2, 25)
SMOOTH_RIDGES = np.logspace(-4, 0, 9)
LANDMARKS = 300
EVIDENCE_FLOOR = 0.05
ORTHOGONAL = 1e-6
"""Coordinates whose cosines stay below this are orthogonal."""
SAFE = 1e50
"""Products of four numbers up to this size, or of their reciprocals, stay in range."""


@dataclass(frozen=True)
class Loadings:
    """What coordinates T (n x h) know of centred features X (n x m), and how they read an outcome.

    Z : orthonormal basis of the coordinates (n x r), L : squared lengths along it, P = Z'X (r x m)
    V : loadings of the coordinates themselves (h x m), X'(T^+)' transposed, or given directions
    A : reads an outcome, b_i ||t_i|| = (A y)_i with b the least squares of y on T (h x n)
    spread : squared lengths of the features, 0 where constant
    weights : sample weights of the inner product, None for the plain one
    target_scale : what columns of the outcome are divided by, None for nothing
    groups : samples that are left out together when a predictor is judged, None for one at a time
    """

    Z: Matrix
    L: Matrix
    P: Matrix
    V: Matrix
    A: Matrix
    spread: Matrix
    weights: Matrix | None = None
    groups: Matrix | None = None
    target_scale: Matrix | None = None

    def reading(self, target_scale: Matrix) -> Loadings:
        """The same, for columns of the outcome divided by these."""
        return replace(self, target_scale=target_scale)

    @cached_property
    def shares(self) -> Matrix:
        """g (h x m): share of each feature in each coordinate, (v_ji / ||v_i||)^2 = (z_i'x_j)^2 / ||X'z_i||^2."""
        squared = np.square(self.V)
        totals = squared.sum(axis=1, keepdims=True)
        return np.divide(squared, totals, out=np.zeros_like(squared), where=totals > 0)

    @cached_property
    def label_free(self) -> Matrix:
        """mean_i g_ij: what the ranking would be, on average, with permuted labels."""
        return _normalised(self.shares.mean(axis=0))

    @cached_property
    def scaled(self) -> Matrix:
        """P with the scale of each feature divided out: correlations of features with coordinates."""
        root = np.sqrt(self.spread)
        return np.divide(self.P, root, out=np.zeros_like(self.P), where=root > 0)

    @cached_property
    def alike(self) -> Matrix:
        """Sum over features of the products of their correlations with each two coordinates (r x r)."""
        return self.scaled @ self.scaled.T

    @cached_property
    def fidelity(self) -> Matrix:
        """R^2 of each feature on the coordinates."""
        return np.minimum(np.square(self.scaled).sum(axis=0), 1.0)

    @cached_property
    def smoothers(self) -> list[Smoother]:
        """The smooth predictors that `gradient` weighs."""
        sizes = sorted({min(size, len(self.L)) for size in SMOOTH_COORDINATES})
        return [Smoother(self, size, width) for size in sizes for width in SMOOTH_BANDWIDTHS]


def loadings(
    T: Matrix,
    X: Matrix,
    *,
    directions: Matrix | None = None,
    weights: Matrix | None = None,
    groups: Matrix | None = None,
    spread: Matrix | None = None,
) -> Loadings:
    """Loadings of features on any coordinates.

    Orthogonal coordinates need no pseudo-inverse and no regression: Z = T / ||t||, A = Z', V = Z'X. Others (UMAP,
    t-SNE) are read by T^+. With sample weights d all is in the inner product a'diag(d)b, that of a generalised
    eigenproblem or of weighted PCA. `directions` (m x h) stand for the loadings where the problem has its own (PLS).
    `spread`, squared lengths of the features, says that X is centred already.
    """
    T = centred(in_safe_range(T), weights)
    if spread is None:
        X = centred(in_safe_range(X), weights)
        spread = np.square(X).sum(axis=0)
    length = np.square(T).sum(axis=0)
    root = np.sqrt(length)
    cosines = np.abs(T.T @ T) / np.maximum(np.outer(root, root), np.finfo(float).tiny)
    if np.triu(cosines, 1).max(initial=0.0) < ORTHOGONAL and length.min() > 0:
        Z = T / np.sqrt(length)
        P = Z.T @ X
        L, A, V = length, Z.T, P
    else:
        U, s, _ = linalg.svd(T, full_matrices=False)
        keep = s > 1e-12 * s[0]
        Z, L = U[:, keep], np.square(s[keep])
        P = Z.T @ X
        inverse = np.linalg.pinv(T)
        A, V = np.sqrt(length)[:, None] * inverse, inverse @ X
    V = V if directions is None else np.asarray(directions, dtype=float).T
    return Loadings(Z, L, P, V, A, spread, weights, groups)


def fine(of: Loadings, target: Matrix) -> Matrix:
    """importance_j = sum_i w_i g_ij, w_i = b_i^2 t_i't_i / sum_l b_l^2 t_l't_l (VINK eq. 3; FINE eq. 13 and 15).

    With orthogonal coordinates w_i = (z_i'y)^2 / sum_l (z_l'y)^2. target: n x c x b for b outcomes at once -> m x b.
    """
    weight = np.square(np.tensordot(of.A, target, axes=(1, 0))).sum(axis=1)
    total = weight.sum(axis=0)
    weight = np.where(total > 0, weight / np.where(total > 0, total, 1.0), 1.0 / len(weight))
    return _normalised(of.shares.T @ weight, of.label_free)


@dataclass(frozen=True)
class Fit:
    """A linear predictor for b outcomes at once: coefficients in units of Z, leave-out R^2, and the F of y on T."""

    beta: Matrix
    r2: Matrix
    F: Matrix


def linear(of: Loadings, target: Matrix) -> Fit:
    """yhat = Z f Z'y, f = L / (L + a), a by generalised cross-validation; target n x c x b."""
    n, h = of.Z.shape
    zy = np.tensordot(of.Z, target, axes=(0, 0))
    total = np.square(target).sum(axis=(0, 1))
    shrink = of.L[None, :] / (of.L[None, :] + np.concatenate([[0.0], of.L.mean() * RIDGES])[:, None])
    explained = np.square(zy).sum(axis=1)
    residual = total[None, :] - (2 * shrink - shrink**2) @ explained
    gcv = residual / np.maximum(n - 1 - shrink.sum(axis=1), 1e-9)[:, None] ** 2
    f = shrink[gcv.argmin(axis=0)].T
    beta = f[:, None, :] * zy
    error = np.square(_left_out(of.Z, f, target - np.tensordot(of.Z, beta, axes=(1, 0)), of.groups)).sum(axis=(0, 1))
    r2 = 1.0 - error / np.where(total > 0, total, 1.0)
    unexplained = np.maximum(total - explained.sum(axis=0), 1e-12 * total)
    F = (explained.sum(axis=0) / h) / (unexplained / max(n - 1 - h, 1))
    return Fit(beta, r2, F)


class Smoother:
    """Gaussian kernel ridge on the first coordinates, the ridge by closed-form leave-out error.

    Above LANDMARKS samples the kernel functions sit on that many of them, spread evenly along the first coordinate.
    """

    def __init__(self, of: Loadings, size: int, width: float) -> None:
        self.of, self.size = of, size
        self.T = of.Z[:, :size] * np.sqrt(of.L[:size])
        order = np.argsort(self.T[:, 0], kind="stable")
        self.R = self.T[order[np.linspace(0, len(order) - 1, min(LANDMARKS, len(order))).round().astype(int)]]
        within = cdist(self.R, self.R, "sqeuclidean")
        middle = float(np.median(within[np.triu_indices(len(within), 1)]))
        self.bandwidth = width * float(np.sqrt(middle)) or 1.0
        values, U = linalg.eigh(np.exp(-within / (2 * self.bandwidth**2)))
        keep = values > 1e-10 * values[-1]
        self.K = np.exp(-cdist(self.T, self.R, "sqeuclidean") / (2 * self.bandwidth**2))
        root = U[:, keep] / np.sqrt(values[keep])
        features = self.K @ root
        self.Q, self.s, V = linalg.svd(features - features.mean(axis=0), full_matrices=False)
        self.back = root @ V.T

    def fit(self, target: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """Weights of the kernel functions (r x c x b), leave-out R^2 and degrees of freedom for each of b outcomes."""
        n, c, b = target.shape
        qy = self.Q.T @ target.reshape(n, c * b)
        total = np.square(target).sum(axis=(0, 1))
        best, choice = np.full(b, np.inf), np.zeros(b, dtype=int)
        ridges = SMOOTH_RIDGES * self.s.max() ** 2
        for index, ridge in enumerate(ridges):
            hat = self.s**2 / (self.s**2 + ridge)
            residual = target - (self.Q @ (hat[:, None] * qy)).reshape(n, c, b)
            error = np.square(_left_out(self.Q, hat[:, None], residual, self.of.groups)).sum(axis=(0, 1))
            choice = np.where(error < best, index, choice)
            best = np.minimum(best, error)
        shrink = self.s[:, None] / (self.s[:, None] ** 2 + ridges[choice][None, :])
        dual = self.back @ (qy.reshape(-1, c, b) * shrink[:, None, :]).reshape(-1, c * b)
        freedom = (self.s[:, None] * shrink).sum(axis=0)
        return dual.reshape(-1, c, b), 1.0 - best / np.where(total > 0, total, 1.0), freedom

    def outer_gradients(self, dual: Matrix) -> Matrix:
        """C (size x size x b): mean over samples and sum over outputs of grad f grad f', in units of Z."""
        r, c, b = dual.shape
        flat = dual.reshape(r, c * b)
        value = self.K @ flat
        gradient = np.stack(
            [self.K @ (at[:, None] * flat) - t[:, None] * value for t, at in zip(self.T.T, self.R.T, strict=True)]
        )
        gradient *= np.sqrt(self.of.L[: self.size])[:, None, None] / self.bandwidth**2
        gradient = gradient.reshape(self.size, len(self.T), c, b)
        return np.einsum("inob,jnob->ijb", gradient, gradient, optimize=True) / len(self.T)


def squares(P: Matrix, beta: Matrix) -> Matrix:
    """Sum over outputs of (p_j' beta)^2 for every column p_j of P (h x m); beta h x c x b -> m x b."""
    h, c, b = beta.shape
    inner = P.T @ beta.reshape(h, c * b)
    return np.square(inner, out=inner).reshape(-1, c, b).sum(axis=1)


def quadratic(P: Matrix, C: Matrix, free: Matrix, weight: Matrix) -> Matrix:
    """p_j' C p_j + free_j weight for the columns p_j of P and b symmetric C (h x h x b): m x b, in one product."""
    i, j = np.triu_indices(len(C))
    pairs = P[i] * P[j] * np.where(i == j, 1.0, 2.0)[:, None]
    result = np.vstack([pairs, free]).T @ np.vstack([C[i, j], weight])
    return np.maximum(result, 0.0, out=result)


def importances(of: Loadings, target: Matrix, method: str) -> Matrix:
    """Shares of the features by one of METHODS: target n x c -> m; target n x c x b -> m x b."""
    if target.ndim == 2:
        return importances(of, target[:, :, None], method)[:, 0]
    if method not in METHODS:
        raise InputError(f"method={method!r} came; one of {', '.join(METHODS)} is wanted.")
    if len(of.A) == 1:  # one coordinate: whatever the outcome, its shares are all there is
        return np.repeat(of.label_free[:, None], target.shape[2], axis=1)
    target = centred(target, of.weights)
    if of.target_scale is not None:
        target = target / of.target_scale[:, None]
    if method == "fine":
        return fine(of, target)
    line = linear(of, target)
    if method == "coherent":
        return _mixed(of, line, np.zeros(target.shape[2]), None, line.F)
    C, r2, F = _gradient(of, target, line.r2)
    if method == "gradient":
        return _mixed(of, line, np.ones(target.shape[2]), C, np.maximum(F, line.F))
    nonlinear = np.clip((r2 - line.r2) / np.maximum(r2, EVIDENCE_FLOOR), 0.0, 1.0)
    return _mixed(of, line, nonlinear, C, np.where(nonlinear > 0, np.maximum(F, line.F), line.F))


def in_blocks(target: Matrix, size: int) -> Iterator[Matrix]:
    """Outcomes in blocks of `size`."""
    return (target[:, :, start : start + size] for start in range(0, target.shape[2], size))


def _gradient(of: Loadings, target: Matrix, linear_r2: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """C (h x h x b, h the coordinates of the smoothers), and leave-out R^2 and F of the best smoother.

    Smoothers are weighted by their R^2 above the linear one's; the shares of each sum to 1 before they are weighted.
    """
    n = len(of.Z)
    fits = [(smoother, *smoother.fit(target)) for smoother in of.smoothers]
    r2 = np.array([fit[2] for fit in fits])
    best = r2.argmax(axis=0)
    weight = np.maximum(r2 - linear_r2[None, :], 0.0)
    weight[best[weight.sum(axis=0) == 0], np.flatnonzero(weight.sum(axis=0) == 0)] = 1.0
    weight /= weight.sum(axis=0)
    largest = max(smoother.size for smoother in of.smoothers)
    C = np.zeros((largest, largest, target.shape[2]))
    for (smoother, dual, _, _), share in zip(fits, weight, strict=True):
        used, size = np.flatnonzero(share > 0), smoother.size
        own = smoother.outer_gradients(dual[:, :, used])
        sums = np.einsum("ijb,ij->b", own, of.alike[:size, :size])
        C[:size, :size, used] += own * (share[used] / np.where(sums > 0, sums, 1.0))
    columns = np.arange(target.shape[2])
    top, freedom = r2[best, columns], np.array([fit[3] for fit in fits])[best, columns]
    explained = np.maximum(top, 0.0)
    F = (explained / np.maximum(freedom, 1.0)) / ((1.0 - explained) / np.maximum(n - 1 - freedom, 1.0))
    return C, top, F


def _mixed(of: Loadings, line: Fit, nonlinear: Matrix, C: Matrix | None, F: Matrix) -> Matrix:
    """(1 - tau) ((1 - nonlinear) coherent + nonlinear gradient) + tau label-free, tau = min(1, 1 / F): m x b.

    coherent_j = corr(x_j, Z beta)^2, summed over outputs, and gradient_j = p_j' C p_j, p_j the scaled column of P; each
    as shares that sum to 1, or else label-free ones where they are all 0. What multiplies features is one matrix, so
    that a thousand outcomes cost one product.
    """
    by_label, form = 1.0 - 1.0 / np.maximum(F, 1.0), np.zeros((0, 0, len(F)))
    total = np.einsum("icb,ij,jcb->b", line.beta, of.alike, line.beta, optimize=True)
    part = np.where(total > 0, by_label * (1.0 - nonlinear), 0.0)
    beta = line.beta * np.sqrt(part / np.where(total > 0, total, 1.0))
    used = part
    if C is not None:
        total = np.einsum("ijb,ij->b", C, of.alike[: len(C), : len(C)])
        part = np.where(total > 0, by_label * nonlinear, 0.0)
        form, used = C * (part / np.where(total > 0, total, 1.0)), used + part
    if len(beta) > max(SMOOTH_COORDINATES):
        return squares(of.scaled, beta) + quadratic(of.scaled, form, of.label_free, 1.0 - used)
    both = np.einsum("icb,jcb->ijb", beta, beta)
    both[: len(form), : len(form)] += form
    return quadratic(of.scaled, both, of.label_free, 1.0 - used)


def _left_out(Q: Matrix, hat: Matrix, residual: Matrix, groups: Matrix | None) -> Matrix:
    """Residuals of samples (n x c x b) from the fit without them, or without their whole group.

    S = Q diag(hat) Q' + 11'/n: r_i / (1 - S_ii), or (I - S_gg)^-1 r_g; hat is h x b, or h x 1 for all b alike.
    """
    n = len(Q)
    if groups is None:
        leverage = np.square(Q) @ hat + 1.0 / n
        return residual / np.maximum(1.0 - leverage, 1e-6)[:, None, :]
    left = np.empty_like(residual)
    for rows in (np.flatnonzero(groups == group) for group in np.unique(groups)):
        own = np.einsum("ik,kb,jk->bij", Q[rows], hat, Q[rows], optimize=True) + 1.0 / n
        away = np.linalg.pinv(np.eye(len(rows)) - own, hermitian=True)
        left[rows] = np.einsum(
            "bij,jcb->icb", np.broadcast_to(away, (residual.shape[2], *away.shape[1:])), residual[rows]
        )
    return left


def in_safe_range(table: Matrix) -> Matrix:
    """A table of an ordinary size as it is, others times one power of two: shares do not depend on the unit."""
    largest = float(np.abs(table).max())
    return table if 1 / SAFE < largest < SAFE else np.ldexp(table, -int(np.frexp(largest)[1]))


def centred(table: Matrix, weights: Matrix | None = None) -> Matrix:
    """Columns off their (weighted) mean, times the root of the weights; exactly 0 where a column is constant."""
    result = table - (table.mean(axis=0) if weights is None else np.average(table, axis=0, weights=weights))
    constant = np.abs(result).max(axis=0) <= 1e-13 * np.abs(table).max(axis=0)
    result[:, constant] = 0.0
    if weights is None:
        return result
    return result * np.sqrt(weights / weights.mean()).reshape(-1, *[1] * (table.ndim - 1))


def _normalised(share: Matrix, otherwise: Matrix | None = None) -> Matrix:
    """Columns that sum to 1; where there is nothing, `otherwise` or nothing."""
    total = share.sum(axis=0)
    result = np.divide(share, total, out=np.zeros_like(share), where=total > 0)
    if otherwise is not None and share.ndim == 2 and (total <= 0).any():
        result[:, total <= 0] = otherwise[:, None]
    return result
