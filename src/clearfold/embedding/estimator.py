"""What every embedding does alike: check what came, decompose, keep the rule for new samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from clearfold.embedding.affinity import median_power
from clearfold.embedding.choice import elbow, variance_curve
from clearfold.embedding.distances import Features, Indices, blocks
from clearfold.embedding.neighbors import NeighborGraph, neighbor_graph
from clearfold.embedding.operator import Operator, Spectrum
from clearfold.embedding.samples import LEAST, Points, Samples, as_samples
from clearfold.embedding.spectral import Matrix, warn_if_near_equal
from clearfold.errors import InputError, InputTypeError, IsolatedQueryWarning, warn

MOST = 1e140
"""The largest value of a feature: a sum of squares stays finite."""
HINTS = {
    "NaN": "Impute or drop missing values first, for instance with sklearn.impute.SimpleImputer in a pipeline.",
    "infinity": "Replace or drop infinite values first.",
    "could not convert string": "Pass numeric features only; leave labels and identifiers out of X.",
    "feature names": "Pass the same columns as in fit, in the same order.",
    "is expecting": "Pass the same columns as in fit.",
    "0 feature(s)": "Pass a table with numeric features.",
    "NAType": "Impute or drop missing values first.",
    "0 sample(s)": "Give more samples.",
    "1 sample": "Give more samples.",
}


class SpectralEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Coordinates of samples from the spectrum of an operator, and of new samples by the operator's own rule.

    A subclass says which operator stands for its samples (`_operator`) and how new samples are compared (`_place`).
    """

    n_components: int | str
    metric: str
    _METRICS: ClassVar[tuple[str, ...]] = ("euclidean", "precomputed")
    _COMPARED_AT_ONCE: ClassVar[int | None] = None
    """Fitted samples that `_place` compares new ones with at a time, if not with all."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the coordinates of the rows of X (or of the samples whose distances X holds).

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, m); with metric="precomputed" distances of shape (n, n)
        y : ignored, here for pipelines
        """
        self._check_components()
        samples = self._samples(X)
        self._check_varies(samples)
        self._fit_samples(samples, y)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Matrix:
        """`fit`, then the coordinates of the same rows."""
        return self.fit(X, y, **fit_params).embedding_

    def transform(self, X: Any) -> Matrix:
        """Coordinates of new samples; each one's depend on nothing but itself and the fitted samples.

        Parameters
        ----------
        X : rows with the columns of fit; with metric="precomputed" distances (rows) to the fitted samples (columns)
        """
        return self._transform(X)

    def _transform(self, X: Any) -> Matrix:
        """`transform`, always an array."""
        coordinates, isolated = self._placed(X)
        if isolated.any():
            rows = np.flatnonzero(isolated)
            warn(
                f"{len(rows)} of {len(isolated)} new samples have (almost) no affinity to any fitted one and were "
                f"given the place of the nearest (rows {', '.join(map(str, rows[:10]))}"
                f"{', ...' if len(rows) > 10 else ''}). Treat these places as unknown, or fit again with such samples, "
                "a larger bandwidth or a larger neighbourhood.",
                IsolatedQueryWarning,
            )
        return coordinates

    def isolated(self, X: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which new samples have (almost) no affinity to any fitted one: their coordinates are those of the nearest."""
        return self._placed(X)[1]

    @abstractmethod
    def _operator(self, samples: Samples, y: Any = None) -> Operator:
        """The operator that stands for the samples."""

    @abstractmethod
    def _place(self, X: Features) -> Matrix:
        """Coordinates of new samples by the operator's rule; NaN where it cannot place one."""

    def _approximated_distances(self, operator: Operator, samples: Samples) -> Matrix:
        """The distances that the coordinates stand for."""
        return operator.distances()

    def _fit_samples(self, samples: Samples, y: Any = None) -> None:
        """Fit samples that were checked before, perhaps shared with other embeddings."""
        self.n_features_in_ = samples.X.shape[1] if isinstance(samples, Points) else samples.size
        operator = self._operator(samples, y)
        spectrum = self._choose(operator, samples)
        self.eigengap_ = warn_if_near_equal(spectrum.frequencies, spectrum.rank - 1) if spectrum.rank > 1 else 1.0
        kept = spectrum.head(self.n_components_)
        self._store(samples, operator, kept)

    def _store(self, samples: Samples, operator: Operator, spectrum: Spectrum) -> None:
        self._fitted = samples
        self._rule = operator.rule(spectrum)
        self.embedding_ = spectrum.coordinates
        self.eigenvalues_ = spectrum.values

    def _choose(self, operator: Operator, samples: Samples) -> Spectrum:
        """Spectrum with one coordinate more than wanted, if there is one; sets `n_components_`."""
        wanted = self.n_components
        if wanted == "elbow":
            most = max(2, min(20, samples.size // 4))
            spectrum = operator.decompose(most + 1)
            self._check_rank(1, spectrum.rank)
            curve = variance_curve(spectrum.coordinates[:, :most], self._approximated_distances(operator, samples))
            self.n_components_ = elbow(curve, samples.size)
            return spectrum.head(self.n_components_ + 1)
        spectrum = operator.decompose(int(wanted) + 1)
        self._check_rank(int(wanted), spectrum.rank)
        self.n_components_ = int(wanted)
        return spectrum

    def _check_components(self) -> None:
        wanted = self.n_components
        if wanted == "elbow":
            return
        if not isinstance(wanted, int | np.integer) or isinstance(wanted, bool) or wanted < 1:
            raise InputError(f"n_components={wanted!r} came; a whole number of at least 1, or 'elbow', is wanted.")

    def _check_varies(self, samples: Samples) -> None:
        if not samples.vary():
            raise InputError(
                f"all samples are equal (or differ by less than {LEAST:g}): there is nothing to embed. "
                "Check that X holds features that vary."
            )

    def _check_rank(self, wanted: int, rank: int) -> None:
        if rank == 0:
            raise InputError(
                f"these samples have no coordinate in {type(self).__name__}: there is nothing to embed. "
                "Raise the bandwidth or the neighbourhood, or give more samples."
            )
        if wanted > rank:
            raise InputError(
                f"n_components={wanted} came, but these samples (n_features = {self.n_features_in_}) have only {rank} "
                f"{'coordinate' if rank == 1 else 'coordinates'} above rounding in {type(self).__name__}. "
                f"Set n_components to at most {rank}, or to 'elbow'."
            )

    def _graph(self, samples: Samples) -> NeighborGraph:
        """The neighbour graph, with its health in attributes and warnings."""
        graph = samples.once(("graph", self.n_neighbors), lambda: neighbor_graph(samples, self.n_neighbors))
        self.n_connected_components_ = graph.n_components
        self.bridges_ = graph.bridges
        self.n_duplicates_ = graph.n_duplicates()
        graph.warn()
        return graph

    def _bandwidth(self, samples: Samples, squared: Matrix | None = None, power: float = 1.0) -> float:
        """The bandwidth that was asked for; its median from a table of squared distances, if one is at hand."""
        wanted = self.bandwidth
        if isinstance(wanted, str) and wanted == "median":
            return samples.once(
                ("median", power), lambda: median_power(samples.squared() if squared is None else squared, power)
            )
        if not is_positive(wanted):
            raise InputError(f"bandwidth={wanted!r} came; 'median' or a number above 0 is wanted.")
        return float(wanted)

    def _samples(self, X: Any) -> Samples:
        if self.metric not in self._METRICS:
            raise InputError(f"metric={self.metric!r} came; {' or '.join(map(repr, self._METRICS))} is wanted.")
        return as_samples(self._features(X, reset=True, least=2), self.metric)

    def _features(self, X: Any, *, reset: bool, least: int = 1) -> Features:
        if self.metric == "precomputed" and sparse.issparse(X):
            raise InputError("a sparse table of distances came; pass a dense one, where no distance is missing.")
        return in_range(checked(self, X, reset=reset, least=least))

    def _placed(self, X: Any) -> tuple[Matrix, np.ndarray[Any, np.dtype[np.bool_]]]:
        if "embedding_" not in vars(self):
            check_is_fitted(self, "embedding_")
        X = self._fitted.alike(self._features(X, reset=False))
        coordinates = np.empty((X.shape[0], self._n_features_out))
        for rows in blocks(X.shape[0], self._COMPARED_AT_ONCE or self._fitted.size):
            coordinates[rows] = self._place(X[rows])
        isolated = np.isnan(coordinates.sum(axis=1))
        if isolated.any():
            nearest, _ = self._fitted.neighbors_of(X[isolated], 1)
            coordinates[isolated] = self.embedding_[nearest[:, 0]]
        return coordinates, isolated

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.metric != "precomputed"
        tags.input_tags.pairwise = self.metric == "precomputed"
        return tags


def checked(estimator: Any, X: Any, *, reset: bool, least: int = 1, **options: Any) -> Features:
    """X as finite numbers, its width and names remembered (reset) or compared; errors say what to do.

    options : for scikit-learn's `validate_data`
    """
    options = {"accept_sparse": "csr", "dtype": np.float64, "order": "C", "ensure_min_samples": least} | options
    if not reset and _is_plain(estimator, X, least):
        return X
    try:
        with np.errstate(invalid="ignore"):  # its look for infinite values adds up all of them
            table = validate_data(estimator, X, reset=reset, **options)
    except (ValueError, TypeError) as error:
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        hint = next((advice for sign, advice in HINTS.items() if sign in str(error)), "Pass a table of finite numbers.")
        raise kind(f"{error} {hint}") from error
    return sparse.csr_array(table) if sparse.issparse(table) else table


def in_range(X: Features) -> Features:
    """X, if its values can be squared and added up."""
    values = X.data if sparse.issparse(X) else X
    ends = np.fmax.reduce(values, axis=None, initial=0.0), -np.fmin.reduce(values, axis=None, initial=0.0)  # past NaN
    longest = float(max(ends))
    if longest > MOST:
        raise InputError(
            f"values up to {longest:.1e} came; their squares are too large to compute with. Values up to {MOST:g} are "
            "wanted: give the features in another unit, or look for a mistake in them."
        )
    return X


def _is_plain(estimator: Any, X: Any, least: int) -> bool:
    """Whether nothing about X needs a second look: for one sample a look costs more than to place it."""
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.flags.c_contiguous
        and len(X) >= least
        and X.shape[1] == vars(estimator).get("n_features_in_")
        and "feature_names_in_" not in vars(estimator)
        and bool(np.isfinite(X).all())
    )


def at_known(coordinates: Matrix, nearest: Indices, distances: Matrix, known: Matrix) -> Matrix:
    """Coordinates of new samples, those that coincide with a fitted sample replaced by that sample's own.

    nearest, distances : for each new sample the fitted samples near it, nearest first
    """
    same = np.flatnonzero(distances[:, 0] == 0)
    coordinates[same] = known[nearest[same, 0]]
    return coordinates


def is_positive(value: Any) -> bool:
    """A finite real number above 0, not a truth value."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and bool(0 < value < np.inf)
