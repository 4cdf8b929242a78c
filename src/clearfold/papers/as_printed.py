"""Formulas as they are printed where we depart from them, and how far they are from ours: measured, not asserted.

Each is a plain function of arrays; `fine_formulas` and `ose_ssl_formulas` set them beside the library on data that
need no download. RVE's `printed` and BoSE's "as printed" rows are whole protocols and stand in their own modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist, pdist, squareform

from clearfold.embedding import GraphEmbedding, Isomap
from clearfold.embedding.locally_linear import barycentric
from clearfold.embedding.samples import as_samples
from clearfold.embedding.spectral import largest
from clearfold.evaluate import auprc, silhouette
from clearfold.importance import fine_importance
from clearfold.papers.claims import Figure
from clearfold.papers.pieces import Findings

if TYPE_CHECKING:
    import pandas as pd

Matrix: TypeAlias = NDArray[np.float64]
COLUMNS = ["equation", "printed", "what is measured", "as printed", "ours"]


# FINE -------------------------------------------------------------------------------------------------------


def isomap_coordinates(geodesics: Matrix, count: int) -> Matrix:
    """T = Z L^1/2 of K = geodesic distances (FINE eq. 10); a distance in the place of a similarity, and not centred."""
    pairs = largest(np.ascontiguousarray(geodesics, dtype=float), count)
    return pairs.vectors * np.sqrt(np.maximum(pairs.values, 0.0))


def lle_matrix(weights: Matrix) -> Matrix:
    """M = (I - W)(I - W') (FINE eq. 12)."""
    rest = np.eye(len(weights)) - weights
    product: Matrix = rest @ rest.T
    return product


def importance(coordinates: Matrix, X: Matrix, y: Any) -> Matrix:
    """pi_j^2 / m, pi_j = sum_i b_i^2 t_i't_i v_ji / ||v_i|| / sum_i b_i^2 t_i't_i (FINE eq. 13 and 15)."""
    X, T = X - X.mean(axis=0), coordinates - coordinates.mean(axis=0)
    loadings = X.T @ np.linalg.pinv(T).T
    slopes = np.linalg.pinv(T) @ (np.asarray(y, dtype=float) - np.mean(y))
    weights = slopes**2 * np.square(T).sum(axis=0)
    shares = (loadings / np.linalg.norm(loadings, axis=0)) @ weights / weights.sum()
    squared: Matrix = np.square(shares) / X.shape[1]
    return squared


def fine_formulas(n_components: int = 5, n_neighbors: int = 10) -> Findings:
    """FINE's equations 10, 12 and 13 on WDBC, standardised, beside ours."""
    from clearfold.papers.cohorts import cohort

    patients = cohort("wdbc")
    X = patients.X.to_numpy(dtype=float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    ours = Isomap(n_components=n_components, n_neighbors=n_neighbors).fit(X)
    theirs = isomap_coordinates(ours.geodesics_, n_components)
    paths = squareform(ours.geodesics_, checks=False)
    weights = _barycentric_weights(X, n_neighbors)
    transposed = lle_matrix(weights.T).T  # (I - W')(I - W), ours
    y = np.asarray(patients.y, dtype=float)
    rows = [
        ("10", "K = d", "correlation of distances on the map with path lengths",
         _correlation(pdist(theirs), paths), _correlation(pdist(ours.embedding_), paths)),
        ("10", "K = d", "correlation of the first coordinate with Isomap's, without sign",
         abs(_correlation(theirs[:, 0], ours.embedding_[:, 0])), 1.0),
        ("12", "M = (I - W)(I - W')", "||M 1|| / ||M||: 0 if the constant vector is in the null space",
         _constant_left(lle_matrix(weights)), _constant_left(transposed)),
        ("13, 15", "no root, no squares", "sum of all importances",
         float(importance(ours.embedding_, X, y).sum()), float(fine_importance(ours.embedding_, X, y).sum())),
    ]  # fmt: skip
    return _findings("FINE", rows)


def _barycentric_weights(X: Matrix, k: int) -> Matrix:
    samples = as_samples(X, "euclidean")
    indices, _ = samples.neighbors(k)
    weights = barycentric(samples.own_local_gram(indices))
    start = np.arange(0, weights.size + 1, k)
    table = sparse.csr_array((weights.ravel(), indices.ravel(), start), shape=(len(X),) * 2)
    dense: Matrix = table.toarray()
    return dense


def _constant_left(matrix: Matrix) -> float:
    return float(np.linalg.norm(matrix.sum(axis=1)) / np.linalg.norm(matrix))


# OSE-SSL ----------------------------------------------------------------------------------------------------


def placement(affinities: Matrix, coordinates: Matrix, eigenvalues: Matrix) -> Matrix:
    """y_k(x) = sum_j W(x, j) y_jk / lambda_k (OSE-SSL eq. 2): the query's degree is missing."""
    placed: Matrix = affinities @ coordinates / eigenvalues
    return placed


def affinity(X: Matrix, radius: float, bandwidth: float) -> Matrix:
    """exp(-A / s) with A = 0 from the radius on (OSE-SSL eq. 4): the farthest samples become the most alike."""
    distances = cdist(X, X)
    similar: Matrix = np.exp(-np.where(distances < radius, distances, 0.0) / bandwidth)
    return similar


def printed_silhouette(coordinates: Matrix, labels: Any) -> float:
    """Mean of (G - C) / max(C, G) with sums of distances to the own class (C) and to all others (G) (Table 1)."""
    distances = cdist(coordinates, coordinates)
    same = np.equal.outer(labels, labels)
    own, other = (distances * same).sum(axis=1), (distances * ~same).sum(axis=1)
    return float(np.mean((other - own) / np.maximum(own, other)))


def ose_ssl_formulas(n_samples: int = 1000, radius: float = 4.0, bandwidth: float = 100.0) -> Findings:
    """OSE-SSL's equations 2 and 4 on a Swiss roll and its silhouette on noise, beside ours."""
    from clearfold.papers.ose_ssl import roll

    X, labels = roll(0, n_samples)
    ours = GraphEmbedding(n_components=2, neighborhood=radius, bandwidth=bandwidth).fit(X)
    near = cdist(X, X)
    gamma = np.where(near < radius, np.exp(-near / bandwidth), 0.0)
    size = float(np.sqrt(np.mean(np.square(ours.embedding_))))
    moved = placement(gamma, ours.embedding_, ours.eigenvalues_) - ours.embedding_
    stayed = ours.transform(X) - ours.embedding_
    far = affinity(X, radius, bandwidth)
    theirs = GraphEmbedding(n_components=2, metric="precomputed", bandwidth=1.0, power=1).fit(-np.log(far))
    noise = np.random.default_rng(0)
    spread, unequal = noise.standard_normal((200, 2)), np.repeat([0, 1], [180, 20])
    rows = [
        ("2", "no division by the query's degree", "how far training samples move when they are placed, of their size",
         _rms(moved) / size, _rms(stayed) / size),
        ("4", "far distances are 0", "share of all affinity that lies between samples outside the neighbourhood",
         float(far[near >= radius].sum() / far.sum()), float(gamma[near >= radius].sum() / gamma.sum())),
        ("4", "far distances are 0", "AUPRC of graph embedding without labels",
         auprc(theirs.embedding_, labels), auprc(ours.embedding_, labels)),
        ("Table 1", "sums instead of means", "silhouette of pure noise, classes of 180 and 20",
         printed_silhouette(spread, unequal), silhouette(spread, unequal)),
    ]  # fmt: skip
    return _findings("OSE-SSL", rows)


def _rms(values: Matrix) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _correlation(a: Matrix, b: Matrix) -> float:
    return float(np.corrcoef(a, b)[0, 1])


def _findings(paper: str, rows: list[tuple[str, str, str, float, float]]) -> Findings:
    figures = {
        "printed": {f"eq. {where}: {what}": Figure(theirs) for where, _, what, theirs, _ in rows},
        "corrected": {f"eq. {where}: {what}": Figure(ours) for where, _, what, _, ours in rows},
    }
    return Findings(figures, {f"{paper}: formulas as printed": _table(rows)}, {"seed": 0})


def _table(rows: list[tuple[str, str, str, float, float]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=COLUMNS)
