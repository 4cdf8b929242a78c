"""How far outputs are apart, whatever signs or axes a method leaves open.

Every function takes the outputs of both sides, ours first, and gives one number; 0 is equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.spatial.distance import pdist

EXACT_UP_TO = 1000
"""Rows up to which a dense decomposition is the reference; beyond, the eigen-equation itself is."""


@dataclass(frozen=True)
class Difference:
    """A named measure of difference and the tolerance that it has to keep."""

    name: str
    between: Callable[[Any, Any], float]
    tolerance: float


def columns(ours: np.ndarray, peer: np.ndarray) -> float:
    """Largest difference of coordinates as a share of the largest coordinate, each column up to its sign."""
    signs = np.sign((ours * peer).sum(axis=0))
    return float(np.abs(ours - signs * peer).max() / np.abs(peer).max())


def coordinates(ours: dict[str, Any], peer: dict[str, Any]) -> float:
    """`columns` of the coordinates."""
    return columns(ours["coordinates"], peer["coordinates"])


def geodesics(ours: dict[str, Any], peer: dict[str, Any]) -> float:
    """Largest relative difference of path lengths."""
    return float(np.abs(ours["geodesics"] - peer["geodesics"]).max() / peer["geodesics"].max())


def subspace(ours: dict[str, Any], peer: dict[str, Any]) -> float:
    """Sine of the largest principal angle between the centred column spaces."""
    first, second = (
        linalg.qr(side["coordinates"] - side["coordinates"].mean(0), mode="economic")[0] for side in (ours, peer)
    )
    return float(np.linalg.norm(first - second @ (second.T @ first), ord=2))


def neighbor_sets(ours: np.ndarray, peer: np.ndarray) -> float:
    """Number of rows whose sets of neighbours differ."""
    return float((np.sort(ours, axis=1) != np.sort(peer, axis=1)).any(axis=1).sum())


def uncorrelated(ours: dict[str, Any], peer: dict[str, Any]) -> float:
    """1 - correlation of the distances among (at most 1000 of) the samples."""
    rows = np.random.default_rng(0).permutation(len(ours["coordinates"]))[:1000]
    return float(1 - np.corrcoef(pdist(ours["coordinates"][rows]), pdist(peer["coordinates"][rows]))[0, 1])


def residual_variances(ours: dict[str, Any], peer: dict[str, Any]) -> float:
    """Largest difference of residual variances, over all settings and coordinates that ours has."""
    apart = [np.abs(own["curves"] - peer[name]["curves"])[~np.isnan(own["curves"])] for name, own in ours.items()]
    return float(np.concatenate(apart).max())


def shares(ours: dict[str, Any], peer: dict[str, Any]) -> float:
    """Largest difference of importances as a share of the largest; infinite where another setting was chosen."""
    if any(own["best"] != peer[name]["best"] for name, own in ours.items()):
        return np.inf
    pairs = [(own["importance"], peer[name]["importance"]) for name, own in ours.items()]
    return float(max(np.abs(own - other).max() / other.max() for own, other in pairs))


def p_values(ours: dict[str, np.ndarray], peer: dict[str, np.ndarray]) -> float:
    """Largest difference of p-values, of features and of families."""
    return float(max(np.abs(ours[kind] - peer[kind]).max() for kind in ours))


def normalised_equation(weights: Callable[[], Any], ours: dict[str, Any], _: Any) -> float:
    """W y = lambda D y: columns beside a dense solution of it, or on large data its residual and Y'DY / sum(D) - I."""
    W = weights()
    degrees = np.asarray(W.sum(axis=1)).ravel()
    Y, values = ours["coordinates"], ours["eigenvalues"]
    if len(Y) > EXACT_UP_TO:
        residual = np.abs(W @ Y - degrees[:, None] * Y * values).max() / np.abs(degrees[:, None] * Y).max()
        return max(float(residual), _off_identity(Y.T @ (degrees[:, None] * Y) / degrees.sum()))
    size, count = Y.shape
    dense = W.toarray() if sparse.issparse(W) else W
    _, vectors = linalg.eigh(dense, np.diag(degrees), subset_by_index=[size - count - 1, size - 2])
    return columns(Y, vectors[:, ::-1] * np.sqrt(degrees.sum()))


def laplacian_equation(weights: Callable[[], Any], ours: dict[str, Any], _: Any) -> float:
    """L f = mu f with T = f / sqrt(mu): columns beside a dense solution, or on large data the residual and F'F - I."""
    W = weights()
    L = sparse.csr_array(sparse.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W)
    frequencies = 1 / ours["eigenvalues"]
    F = ours["coordinates"] * np.sqrt(frequencies)
    if len(F) > EXACT_UP_TO:
        return max(float(np.abs(L @ F - F * frequencies).max() / np.abs(F).max()), _off_identity(F.T @ F))
    values, vectors = linalg.eigh(L.toarray(), subset_by_index=[1, F.shape[1]])
    return columns(ours["coordinates"], vectors / np.sqrt(values))


def _off_identity(gram: np.ndarray) -> float:
    return float(np.abs(gram - np.eye(len(gram))).max())
