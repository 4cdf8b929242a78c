"""The matrix that is decomposed, with its rule for placing a new sample beside it.

Every operator has `decompose(count)`, which gives a `Spectrum`, `rule(spectrum)`, which gives a callable from
affinities of new samples (rows) to coordinates, and `distances()`, the distances that its coordinates approximate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dsymv
from scipy.sparse import csgraph
from scipy.sparse.linalg import LinearOperator

from clearfold.embedding import spectral
from clearfold.embedding.distances import Features, blocks
from clearfold.embedding.spectral import DENSE_BELOW, RANK_TOLERANCE, Eigenpairs, Matrix, largest, orient, smallest
from clearfold.errors import ConvergenceError

Rows: TypeAlias = Any
"""Affinities of new samples (rows) to fitted ones (columns), a float array or a csr_array."""


STRIP = 1_000_000
"""Products of up to this number of multiplications are done by BLAS without packing the factors first."""
VANISHING = 1e-9
"""Weights below this share of the largest do not join parts of a graph."""


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues as the embedding reports them, descending; coordinates; the operator's own eigenvalues."""

    values: Matrix
    coordinates: Matrix
    frequencies: Matrix

    @property
    def rank(self) -> int:
        """Number of coordinates."""
        return len(self.values)

    def head(self, count: int) -> Spectrum:
        """The first coordinates."""
        return Spectrum(
            self.values[:count], np.ascontiguousarray(self.coordinates[:, :count]), self.frequencies[:count]
        )


class Rule(Protocol):
    """Affinities of new samples to fitted ones (rows) -> coordinates."""

    def __call__(self, rows: Rows) -> Matrix: ...  # noqa: D102


class Operator(Protocol):
    """What an embedding decomposes."""

    def decompose(self, count: int) -> Spectrum: ...  # noqa: D102

    def rule(self, spectrum: Spectrum) -> Rule: ...  # noqa: D102

    def distances(self) -> Matrix: ...  # noqa: D102


class Linear:
    """K = X X' with centred X: principal components, decomposed on the shorter side of X.

    `distances` are Euclidean distances of the samples.
    """

    IMPLICIT_ABOVE = 1500

    def __init__(self, X: Features, squared: Matrix | None = None) -> None:
        """`squared`, the squared distances of the samples if they are known, spare the products of a wide X."""
        self.X = X
        self.mean = np.asarray(X.mean(axis=0)).ravel()
        self._squared = squared
        self._wide = X.shape[0] < X.shape[1]

    def decompose(self, count: int) -> Spectrum:
        """T = X V = Z sqrt(L), values L = squared singular values."""
        pairs = self._pairs(min(count, *self.X.shape))
        if self._wide:
            values = pairs.values[: _rank(pairs.values)]
            return Spectrum(values, pairs.vectors[:, : len(values)] * np.sqrt(values), values)
        projected = np.asarray(self.X @ pairs.vectors) - self.mean @ pairs.vectors
        signs = np.sign((orient(projected) * projected).sum(axis=0))
        values = np.einsum("ij,ij->j", projected, projected)
        keep = slice(0, _rank(values))
        self._loadings = (pairs.vectors * signs)[:, keep]
        return Spectrum(values[keep], (projected * signs)[:, keep], values[keep])

    def loadings(self, spectrum: Spectrum) -> Matrix:
        """V (m x h), orthonormal."""
        if not self._wide:
            return self._loadings[:, : spectrum.rank]
        if sparse.issparse(self.X):
            back = np.asarray(self.X.T @ spectrum.coordinates)
            back -= np.outer(self.mean, spectrum.coordinates.sum(axis=0))
        else:
            back = (self.X - self.mean).T @ spectrum.coordinates
        return back / np.linalg.norm(back, axis=0)

    def rule(self, spectrum: Spectrum) -> Rule:
        """(x - mean) V."""
        loadings = np.ascontiguousarray(self.loadings(spectrum))
        return _Projection(loadings, self.mean @ loadings)

    def distances(self) -> Matrix:
        """Euclidean distances of the samples."""
        raise TypeError("the distances of a linear operator are those of its samples")

    def _pairs(self, count: int) -> Eigenpairs:
        """Eigenvectors of X X' (wide X) or of X'X."""
        small = min(self.X.shape)
        if small > self.IMPLICIT_ABOVE and count < small // 8:
            return largest(self._gram_product() if self._wide else self._covariance_product(), count)
        if not self._wide:
            return largest(self._covariance(), count)
        if self._squared is not None:
            return largest(double_centred(-0.5 * self._squared)[0], count)
        if sparse.issparse(self.X):
            return largest(double_centred((self.X @ self.X.T).toarray())[0], count)
        centred = self.X - self.mean  # before they are multiplied: a large offset would drown what differs
        return largest(double_centred(centred @ centred.T)[0], count)

    def _covariance(self) -> Matrix:
        n = self.X.shape[0]
        if sparse.issparse(self.X):
            return (self.X.T @ self.X).toarray() - n * np.outer(self.mean, self.mean)
        raw = np.asarray(self.X.T @ self.X)
        offset = n * np.outer(self.mean, self.mean)
        if (np.diagonal(offset) <= 0.9 * np.diagonal(raw)).all():
            return raw - offset
        centred = self.X - self.mean
        return np.asarray(centred.T @ centred)

    def _gram_product(self) -> LinearOperator:
        n = self.X.shape[0]

        def matvec(vector: Matrix) -> Matrix:
            vector = np.ravel(vector)
            back = self.X.T @ vector - self.mean * vector.sum()
            return np.asarray(self.X @ back) - self.mean @ back

        return LinearOperator((n, n), matvec=matvec, dtype=np.float64)

    def _covariance_product(self) -> LinearOperator:
        m = self.X.shape[1]

        def matvec(vector: Matrix) -> Matrix:
            vector = np.ravel(vector)
            forth = np.asarray(self.X @ vector) - self.mean @ vector
            return np.asarray(self.X.T @ forth) - self.mean * forth.sum()

        return LinearOperator((m, m), matvec=matvec, dtype=np.float64)


class Centred:
    """H K H, H = I - 11'/n; the kernel is centred in place."""

    def __init__(self, kernel: Matrix) -> None:
        self.kernel, self.means = double_centred(kernel)

    def decompose(self, count: int) -> Spectrum:
        """T = Z sqrt(L)."""
        return _scaled(largest(self.kernel, count))

    def rule(self, spectrum: Spectrum) -> Rule:
        """Projection of the centred kernel row."""
        return _projection(spectrum, self.means)

    def distances(self) -> Matrix:
        """sqrt(K_ii + K_jj - 2 K_ij)."""
        return kernel_distances(self.kernel)


class CentredSquares:
    """-1/2 H D^2 H of distances D, in one table: D is squared in place while it is decomposed.

    The root of a rounded square is the number itself, so D is the same afterwards, to the last bit.
    """

    def __init__(self, distances: Matrix) -> None:
        self._distances = distances

    def decompose(self, count: int) -> Spectrum:
        """T = Z sqrt(L)."""
        size = len(self._distances)
        if size < spectral.DENSE_BELOW or count >= size // 8 or not _roots_restore(self._distances):
            return self._apart().decompose(count)
        with _squared_in_place(self._distances) as squares:
            self.means = -0.5 * squares.mean(axis=0)
            try:
                pairs = largest(_centred_product(squares), count)
            except ConvergenceError:
                pairs = None
        if pairs is None:
            return self._apart().decompose(count)
        return _scaled(pairs)

    def rule(self, spectrum: Spectrum) -> Rule:
        """Projection of the centred row of -1/2 d^2."""
        return _projection(spectrum, self.means)

    def distances(self) -> Matrix:
        """D."""
        return self._distances

    def _apart(self) -> Centred:
        """The operator with a table of its own."""
        kernel = np.square(self._distances)
        kernel *= -0.5
        centred = Centred(kernel)
        self.means = centred.means
        return centred


class Laplacian:
    """L = diag(W1) - W; coordinates are those of its pseudo-inverse.

    Parts joined only by weights below rounding are parts of their own: their indicators are null vectors, left out.
    """

    def __init__(self, weights: sparse.csr_array) -> None:
        degrees = np.asarray(weights.sum(axis=1)).ravel()
        self.matrix = _small_dense(weights)
        if isinstance(self.matrix, np.ndarray):
            np.negative(self.matrix, out=self.matrix)
            self.matrix.flat[:: len(degrees) + 1] += degrees
        else:
            self.matrix = sparse.csr_array(sparse.diags_array(degrees) - weights)
        strong = weights.data > VANISHING * max(float(weights.data.max(initial=0.0)), np.finfo(float).tiny)
        if not strong.all():
            felt = sparse.coo_array(weights)
            weights = sparse.csr_array((felt.data[strong], (felt.row[strong], felt.col[strong])), shape=felt.shape)
        self.n_parts, self._part = csgraph.connected_components(weights, directed=False)
        self._known: Eigenpairs | None = None

    @cached_property
    def null(self) -> Matrix:
        """Orthonormal indicators of the parts."""
        indicator = np.equal.outer(self._part, np.arange(self.n_parts)).astype(float)
        return indicator / np.sqrt(indicator.sum(axis=0))

    def decompose(self, count: int) -> Spectrum:
        """T = Z / sqrt(mu), values = 1 / mu."""
        pairs = self._pairs(count)
        keep = pairs.values > 1e-14 * float(self.matrix.diagonal().max(initial=1e-300))
        values = 1.0 / pairs.values[keep]
        return Spectrum(values, pairs.vectors[:, keep] * np.sqrt(values), pairs.values[keep])

    def _pairs(self, count: int) -> Eigenpairs:
        """The smallest pairs, kept; of a small matrix all at once."""
        size = self.matrix.shape[0]
        if self._known is None or len(self._known.values) < min(count, size - self.n_parts):
            self._known = smallest(self.matrix, size if size < DENSE_BELOW else count, null=self.null)
        return self._known.head(count)

    def rule(self, spectrum: Spectrum) -> Rule:
        """f(x) = W(x) f / (d(x) - mu), a row of the eigen-equation; NaN where that amplifies more than tenfold."""
        return _EigenRow(spectrum.coordinates, spectrum.frequencies)

    def distances(self) -> Matrix:
        """Distances induced by the pseudo-inverse (of all its coordinates)."""
        everything = self.decompose(self.matrix.shape[0]).coordinates
        return kernel_distances(everything @ everything.T)


class Reconstruction:
    """K = H (lmax I - M) H, M = (I - W)'(I - W), rows of W sum to 1 (FINE eq. 12, its transpose put right)."""

    def __init__(self, weights: sparse.csr_array) -> None:
        remainder = np.eye(weights.shape[0]) if weights.shape[0] < DENSE_BELOW else sparse.eye_array(weights.shape[0])
        remainder = remainder - _small_dense(weights)
        self.matrix: Rows = remainder.T @ remainder
        self._known: Eigenpairs | None = None

    @cached_property
    def top(self) -> float:
        """lmax(M)."""
        size = self.matrix.shape[0]
        return float(self._pairs(size).values[-1] if 1 < size < DENSE_BELOW else largest(self.matrix, 1).values[0])

    def _pairs(self, count: int) -> Eigenpairs:
        """The smallest pairs off the constant vector, kept; of a small matrix all at once."""
        size = self.matrix.shape[0]
        if self._known is None or len(self._known.values) < min(count, size - 1):
            null = np.full((size, 1), size**-0.5)
            self._known = smallest(self.matrix, size if size < DENSE_BELOW else count, null=null)
        return self._known.head(count)

    def decompose(self, count: int) -> Spectrum:
        """T = Z sqrt(lmax - mu)."""
        pairs = self._pairs(count)
        values = self.top - pairs.values
        keep = values > RANK_TOLERANCE * self.top
        frequencies = _off_rounding(pairs.values[keep], self.top)
        return Spectrum(values[keep], pairs.vectors[:, keep] * np.sqrt(values[keep]), frequencies)

    def rule(self, spectrum: Spectrum) -> Rule:
        """Barycentric weights times coordinates."""
        return _Projection(spectrum.coordinates, np.zeros(spectrum.rank))

    def kernel(self) -> Matrix:
        """K, dense."""
        dense = -(self.matrix if isinstance(self.matrix, np.ndarray) else self.matrix.toarray())
        dense.flat[:: len(dense) + 1] += self.top
        return double_centred(dense)[0]

    def distances(self) -> Matrix:
        """sqrt(K_ii + K_jj - 2 K_ij)."""
        return kernel_distances(self.kernel())


class Normalised:
    """S = D^-1/2 W D^-1/2, S u = lambda u, y = D^-1/2 u sqrt(sum d), so that Y'DY = sum(D); no constant."""

    def __init__(self, weights: Rows) -> None:
        self.degrees = np.asarray(weights.sum(axis=1)).ravel()
        root = 1.0 / np.sqrt(self.degrees)
        if isinstance(weights, np.ndarray):
            weights *= root[:, None]
            weights *= root[None, :]
            self.matrix: Rows = weights
        else:
            scale = sparse.diags_array(root)
            self.matrix = sparse.csr_array(scale @ weights @ scale)

    def decompose(self, count: int) -> Spectrum:
        """Largest eigenvalues off the constant vector."""
        trivial = np.sqrt(self.degrees / self.degrees.sum())[:, None]
        if isinstance(self.matrix, np.ndarray):
            pairs = largest(self.matrix, count, null=trivial)
            values = pairs.values
        else:
            pairs = smallest(sparse.eye_array(len(self.degrees)) - self.matrix, count, null=trivial)
            values = 1.0 - pairs.values
        keep = values > RANK_TOLERANCE
        scaled = pairs.vectors * np.sqrt(self.degrees.sum() / self.degrees)[:, None]
        return Spectrum(values[keep], orient(scaled[:, keep]), _off_rounding(1.0 - values[keep], 1.0))

    def rule(self, spectrum: Spectrum) -> Rule:
        """y(x) = W(x) Y / (lambda d(x)); NaN where a sample has no affinity (OSE-SSL eq. 2 with the query's degree)."""
        return _Nystrom(spectrum.coordinates / spectrum.values)

    def distances(self) -> Matrix:
        """Distances induced by sum(d) D^-1 W D^-1, whose coordinates are Y sqrt(lambda)."""
        dense = self.matrix if isinstance(self.matrix, np.ndarray) else self.matrix.toarray()
        root = 1.0 / np.sqrt(self.degrees)
        return kernel_distances(self.degrees.sum() * dense * root[:, None] * root[None, :])


@dataclass(frozen=True)
class _Projection:
    weights: Matrix
    offset: Matrix

    def __call__(self, rows: Rows) -> Matrix:
        projected = _narrow_product(rows, self.weights)
        projected -= self.offset
        return projected

    def added(self, parts: Iterable[tuple[slice, Matrix]]) -> Matrix:
        """The same from the columns of some fitted samples at a time."""
        projected = sum(_narrow_product(rows, self.weights[columns]) for columns, rows in parts)
        return np.asarray(projected - self.offset)


@dataclass(frozen=True)
class _Nystrom:
    weights: Matrix

    def __call__(self, rows: Rows) -> Matrix:
        degrees = np.asarray(rows.sum(axis=1)).ravel()
        degrees[degrees <= np.finfo(float).tiny] = np.nan
        return np.asarray(rows @ self.weights) / degrees[:, None]


@dataclass(frozen=True)
class _EigenRow:
    coordinates: Matrix
    frequencies: Matrix

    def __call__(self, rows: Rows) -> Matrix:
        degrees = np.asarray(rows.sum(axis=1)).ravel()
        degrees[degrees < self.frequencies.max() / 0.9] = np.nan
        return np.asarray(rows @ self.coordinates) / (degrees[:, None] - self.frequencies[None, :])


def _scaled(pairs: Eigenpairs) -> Spectrum:
    """T = Z sqrt(L) of the eigenvalues above rounding."""
    values = pairs.values[: _rank(pairs.values)]
    return Spectrum(values, pairs.vectors[:, : len(values)] * np.sqrt(values), values)


def _projection(spectrum: Spectrum, means: Matrix) -> _Projection:
    """Rows of a kernel -> coordinates; these sum to zero, so only the kernel's column means remain to subtract."""
    weights = spectrum.coordinates / spectrum.values
    weights -= weights.mean(axis=0)
    return _Projection(weights, means @ weights)


def _roots_restore(distances: Matrix) -> bool:
    """Whether squares of all distances are numbers with all their digits."""
    parts = (distances[rows] for rows in blocks(len(distances), len(distances)))
    return all(part.max() < 1e150 and not ((part > 0) & (part < 1e-150)).any() for part in parts)


@contextmanager
def _squared_in_place(distances: Matrix) -> Iterator[Matrix]:
    """The table with every entry squared; afterwards it is as it was."""
    np.square(distances, out=distances)
    try:
        yield distances
    finally:
        np.sqrt(distances, out=distances)


def _centred_product(squares: Matrix) -> LinearOperator:
    """v -> -1/2 H S H v, reading one triangle of S."""

    def matvec(vector: Matrix) -> Matrix:
        vector = np.ravel(vector)
        image: Matrix = dsymv(-0.5, squares.T, vector - vector.mean(), lower=1)
        return image - image.mean()

    return LinearOperator(squares.shape, matvec=matvec, dtype=np.float64)


def _narrow_product(rows: Rows, weights: Matrix) -> Matrix:
    """Rows times a few columns, by strips so short that BLAS reads them in place: to pack them would take longer."""
    size, width = weights.shape
    strip = min(32, STRIP // (size * max(width, 1)))
    if not isinstance(rows, np.ndarray) or strip < 4 or len(rows) < strip or not rows.flags.c_contiguous:
        return np.asarray(rows @ weights)
    even = len(rows) - len(rows) % strip
    product = np.empty((len(rows), width))
    np.matmul(rows[:even].reshape(-1, strip, size), weights, out=product[:even].reshape(-1, strip, width))
    np.matmul(rows[even:], weights, out=product[even:])
    return product


def double_centred(kernel: Matrix) -> tuple[Matrix, Matrix]:
    """H K H, written over a symmetric K, and the column means of K."""
    means = kernel.mean(axis=0)
    kernel -= means[None, :]
    kernel -= (means - means.mean())[:, None]
    return kernel, means


def kernel_distances(kernel: Matrix) -> Matrix:
    """sqrt(K_ii + K_jj - 2 K_ij)."""
    own = np.diagonal(kernel)
    return np.sqrt(np.maximum(own[:, None] + own[None, :] - 2 * kernel, 0.0))


def _small_dense(weights: sparse.csr_array) -> Rows:
    """Weights as an array if there are so few that this is the fastest, else as they are."""
    return weights.toarray() if weights.shape[0] < DENSE_BELOW else weights


def _off_rounding(frequencies: Matrix, scale: float) -> Matrix:
    """Eigenvalues that are zero up to rounding as zero, so that gaps between them are none."""
    return np.where(np.abs(frequencies) < 1e-13 * scale, 0.0, frequencies)


def _rank(values: Matrix) -> int:
    """Number of leading eigenvalues above tolerance."""
    if not len(values) or values[0] <= 0:
        return 0
    return int(np.count_nonzero(values > RANK_TOLERANCE * values[0]))
