"""Graph embedding, also with labels."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from sklearn.utils.validation import check_is_fitted

from clearfold.embedding.affinity import exponential
from clearfold.embedding.distances import TIE, Features
from clearfold.embedding.estimator import SpectralEmbedder, at_known, is_positive
from clearfold.embedding.neighbors import check_neighbors, spanning_tree
from clearfold.embedding.operator import Normalised, Operator, Rows, Spectrum
from clearfold.embedding.precision import Separation, separation
from clearfold.embedding.samples import Samples
from clearfold.embedding.spectral import RANK_TOLERANCE, Matrix, largest, orient
from clearfold.errors import DisconnectedGraphWarning, InputError, LabelFreeWarning

SLOWEST = 1e-6
"""Axis scaling stops at this 1 - lambda: below it an axis only tells parts of the graph apart."""
BROAD = 0.02
"""Share of pairs from which products with a sparse matrix beat its factor."""
INERT = 0.01
"""Labels change an affinity g by g times itself: below this they change nothing."""


class GraphEmbedding(SpectralEmbedder):
    """W y = lambda D y with W = exp(-D^p / s): Y'DY = sum(D), the constant vector left out.

    Equal to BoSE's spectral embedding ((L - W) y = mu L y, mu = 1 - lambda). New samples by Nystrom with their own
    degree, y(x) = W(x) Y / (lambda d(x)); OSE-SSL eq. 2 prints it without d(x). With labels: semi-supervised,
    affinities g become g (1 + g) between equal and g (1 - g) between different known labels; new samples have none.

    Parameters
    ----------
    n_components : int or "elbow"
    bandwidth : s, or "median" for the median of D^power
    power : p, 1 or 2
    neighborhood : affinities are zero from this distance on; "mst" for just above the longest edge of the minimum
        spanning tree, "nearest" for the distance within which every sample has its `n_neighbors` nearest, None for no
        limit
    metric : "euclidean", or "precomputed" for a table of distances
    n_neighbors : for neighborhood="nearest"
    axis_scaling : divide each axis by sqrt(1 - lambda), so that slow axes count more in distances; retrieval gains

    Attributes
    ----------
    embedding_ : (n, h) coordinates; eigenvalues_ : (h,) lambda
    bandwidth_, neighborhood_ : the values that were used
    degrees_ : (n,) row sums of W, the weights of the inner product in which coordinates are orthogonal
    n_connected_components_ : parts of the graph
    eigengap_ : smallest relative gap between neighbouring 1 - lambda

    Notes
    -----
    A labelled sample shown again as new coincides with a fitted one and gets its stored coordinates. Labels that can
    have no influence (one class alone, or a bandwidth at which every affinity is almost 0 or almost 1) give a
    LabelFreeWarning. Without any known label it is plain graph embedding.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> GraphEmbedding(n_components=2).fit(load_iris().data).embedding_.shape
    (150, 2)
    """

    def __init__(
        self,
        *,
        n_components: int | str = 2,
        bandwidth: float | str = "median",
        power: float = 1.0,
        neighborhood: float | str | None = None,
        metric: str = "euclidean",
        n_neighbors: int = 10,
        axis_scaling: bool = False,
    ) -> None:
        self.n_components = n_components
        self.bandwidth = bandwidth
        self.power = power
        self.neighborhood = neighborhood
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.axis_scaling = axis_scaling

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the coordinates of the rows of X, drawn together and apart by the labels that are known.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, m); with metric="precomputed" distances of shape (n, n)
        y : labels, -1 or missing where unknown; None for none at all
        """
        return super().fit(X, y)

    def separation(self, X: Any, y: Any) -> Separation:
        """How well classes separate among the training samples with known labels, and among these other samples."""
        check_is_fitted(self, "embedding_")
        if self._labels is None:
            raise InputError("this embedding was fitted without labels: there is no separation that it could invent.")
        return separation(self.embedding_, self._labels, self._transform(X), y)

    def _operator(self, samples: Samples, y: Any = None) -> Operator:
        if not is_positive(self.power):
            raise InputError(f"power={self.power!r} came; a number above 0 is wanted, 1 or 2 as a rule.")
        squared = samples.squared() if self._wants_all_distances() else None
        self.bandwidth_ = self._bandwidth(samples, squared, self.power)
        self.neighborhood_ = self._radius(samples, squared)
        labels = None if y is None else known_labels(y, samples.size)
        self._labelled = labels is not None
        self._labels = labels
        affinity = self._affinity(squared if self.neighborhood_ is None else samples.within(self.neighborhood_))
        self.n_connected_components_ = self._parts(affinity, samples)
        if labels is not None:
            warn_if_inert(affinity, labels)
        weights = affinity if labels is None else with_labels(affinity, labels)
        operator = (Broad if self.n_connected_components_ == 1 and is_broad(weights) else Normalised)(weights)
        self.degrees_ = operator.degrees
        return operator

    def _store(self, samples: Samples, operator: Operator, spectrum: Spectrum) -> None:
        if self.axis_scaling:
            scale = 1.0 / np.sqrt(np.maximum(1.0 - spectrum.values, SLOWEST))
            spectrum = replace(spectrum, coordinates=spectrum.coordinates * scale)
        super()._store(samples, operator, spectrum)

    def _place(self, X: Features) -> Matrix:
        radius = self.neighborhood_
        rows = self._fitted.squared_to(X) if radius is None else self._fitted.within_of(X, radius)
        placed = self._rule(self._affinity(rows))
        return at_known(placed, *self._fitted.neighbors_of(X, 1), self.embedding_) if self._labelled else placed

    def _affinity(self, table: Rows) -> Rows:
        """Affinity from squared distances (dense) or distances below the radius (sparse)."""
        if isinstance(table, np.ndarray):
            return exponential(table, self.bandwidth_, self.power)
        table.data = exponential(np.square(table.data), self.bandwidth_, self.power)
        return table

    def _wants_all_distances(self) -> bool:
        whole = self.neighborhood is None or (isinstance(self.neighborhood, str) and self.neighborhood == "mst")
        return whole or isinstance(self.bandwidth, str)

    def _radius(self, samples: Samples, squared: Matrix | None) -> float | None:
        wanted = self.neighborhood
        if wanted is None:
            return None
        if isinstance(wanted, str) and wanted == "nearest":
            check_neighbors(self.n_neighbors, samples.size)
            return just_above(float(samples.neighbors(self.n_neighbors)[1].max()))
        if isinstance(wanted, str) and wanted == "mst":
            assert squared is not None
            return joining_radius(squared)
        if not is_positive(wanted):
            raise InputError(f"neighborhood={wanted!r} came; 'nearest', 'mst', a distance above 0, or None is wanted.")
        return float(wanted)

    def _parts(self, affinity: Rows, samples: Samples) -> int:
        """Parts of the graph; says so if there are several, and which radius would join them."""
        if isinstance(affinity, np.ndarray):
            return 1
        count = int(csgraph.connected_components(affinity, directed=False)[0])
        if count > 1:
            warnings.warn(
                f"with neighborhood={self.neighborhood_:.6g} the graph falls into {count} parts; the first coordinates "
                f"only tell them apart. A radius of {joining_radius(samples.squared()):.6g} (neighborhood='mst') "
                "would join them.",
                DisconnectedGraphWarning,
                stacklevel=5,
            )
        return count


class Broad(Normalised):
    """The same operator where every sample has many neighbours: its gaps are wide, so that no factor is needed."""

    def decompose(self, count: int) -> Spectrum:
        """Largest eigenvalues off the constant vector, by products with S alone."""
        total = float(self.degrees.sum())
        trivial = np.sqrt(self.degrees / total)[:, None]
        order = csgraph.reverse_cuthill_mckee(self.matrix, symmetric_mode=True)  # neighbours near each other in memory
        pairs = largest(self.matrix[order][:, order], count, null=trivial[order])
        keep = pairs.values > RANK_TOLERANCE
        vectors = np.empty((len(order), int(keep.sum())))
        vectors[order] = pairs.vectors[:, keep]
        scaled = orient(vectors * np.sqrt(total / self.degrees)[:, None])
        return Spectrum(pairs.values[keep], scaled, 1.0 - pairs.values[keep])


def is_broad(weights: Rows) -> bool:
    """Whether a sparse table holds so large a share of all pairs that Lanczos iteration needs few products."""
    return not isinstance(weights, np.ndarray) and bool(weights.nnz >= BROAD * weights.shape[0] ** 2)


def joining_radius(squared: Matrix) -> float:
    """Just above the longest edge of the minimum spanning tree: the smallest radius that leaves one part."""
    return just_above(float(spanning_tree(squared)[1][-1]))


def just_above(length: float) -> float:
    """A radius that leaves a distance inside, whatever its rounding."""
    return float(np.nextafter(length, np.inf)) * (1 + TIE)


def warn_if_inert(affinity: Rows, labels: np.ndarray[Any, np.dtype[np.int_]]) -> None:
    """Say so when labels can change nothing, or nothing else can."""
    known = labels >= 0
    if not known.any():
        return  # that is plain graph embedding, as asked
    if len(np.unique(labels[known])) < 2:
        _warn_label_free("only one class is among the known labels: classes cannot be drawn apart. Give labels of two.")
        return
    table = affinity[np.ix_(known, known)] if isinstance(affinity, np.ndarray) else affinity[known][:, known]
    pairs = sparse.coo_array(table)
    values = pairs.data[pairs.row != pairs.col]
    if not len(values) or values.max() < INERT:
        _warn_label_free(
            f"every affinity between labelled samples is below {INERT}: labels have almost no influence on the "
            "coordinates. Raise the bandwidth or the neighbourhood."
        )
    elif values.min() > 1 - INERT / 10:
        _warn_label_free(
            f"every affinity between labelled samples is above {1 - INERT / 10}: between classes nothing is left and "
            "distances have no influence. Lower the bandwidth."
        )


def _warn_label_free(text: str) -> None:
    warnings.warn(text, LabelFreeWarning, stacklevel=6)


def known_labels(y: Any, n_samples: int) -> np.ndarray[Any, np.dtype[np.int_]]:
    """Labels as numbers 0, 1, ...; -1 where unknown (-1, None or NaN)."""
    import pandas as pd

    y = pd.Series(np.asarray(y, dtype=object).ravel())
    if len(y) != n_samples:
        raise InputError(
            f"{len(y)} labels came for {n_samples} samples. Give one label for each row of X, -1 where unknown."
        )
    unknown = y.isna() | y.map(lambda value: isinstance(value, int | float | np.number) and value == -1)
    codes, _ = pd.factorize(y.where(~unknown, None))
    return np.asarray(codes)


def with_labels(affinity: Rows, labels: np.ndarray[Any, np.dtype[np.int_]]) -> Rows:
    """g (1 + g) between equal, g (1 - g) between different known labels, g elsewhere (OSE-SSL eq. 4 and 5)."""
    if isinstance(affinity, np.ndarray):
        known = labels >= 0
        sign = np.where(np.equal.outer(labels, labels), 1.0, -1.0) * np.outer(known, known)
        return affinity * (1.0 + sign * affinity)
    table = sparse.coo_array(affinity)
    known = (labels[table.row] >= 0) & (labels[table.col] >= 0)
    sign = np.where(labels[table.row] == labels[table.col], 1.0, -1.0) * known
    return sparse.csr_array((table.data * (1.0 + sign * table.data), (table.row, table.col)), shape=table.shape)
