"""The one eigen routine: order, sign, null vectors, tolerance and the choice of solver are decided here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.linalg.blas import dsymv
from scipy.sparse import csgraph
from scipy.sparse import linalg as splinalg

from clearfold.embedding.davidson import davidson
from clearfold.errors import ConvergenceError, NearEqualEigenvaluesWarning, warn

Matrix: TypeAlias = NDArray[np.float64]
Symmetric: TypeAlias = "Matrix | sparse.csr_array | splinalg.LinearOperator"

RANK_TOLERANCE = 1e-10
"""Eigenvalues at or below this share of the largest count as zero."""
GAP_TOLERANCE = 1e-3
"""Neighbouring eigenvalues with a smaller relative gap count as nearly equal."""
DENSE_BELOW = 300
"""Below this size a dense decomposition is the fastest."""
BLOCKS_FROM, BLOCKS_UP_TO = 3000, 32
"""From this size a dense matrix is out of cache, where products with blocks pay, for up to this number of pairs."""
BAND_ENTRIES = 100_000_000
"""A factor of a band may hold as many numbers; above, a sparse one is made."""
FACTOR_BELOW = 1500
"""Below this size a dense factor is so cheap that nothing else is tried."""


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues in the order asked for, and orthonormal eigenvectors as columns with deterministic signs."""

    values: Matrix
    vectors: Matrix

    def head(self, count: int) -> Eigenpairs:
        """The first pairs."""
        return Eigenpairs(self.values[:count], np.ascontiguousarray(self.vectors[:, :count]))


def largest(matrix: Symmetric, count: int, *, null: Matrix | None = None) -> Eigenpairs:
    """A v = l v for the `count` largest l, descending, off the known vectors `null` (orthonormal columns).

    Small or nearly full problems are solved densely, the others by Lanczos iteration, large dense ones by blocks.
    """
    size = matrix.shape[0]
    known = 0 if null is None else null.shape[1]
    count = min(count, size - known)
    if _iterate(matrix, size, count):
        found = _by_blocks(matrix, count, null)
        if found is not None:
            return _ordered(*found, ascending=False)
        try:
            return _ordered(*_lanczos(_product(matrix, null), count), ascending=False)
        except splinalg.ArpackNoConvergence as error:
            if isinstance(matrix, splinalg.LinearOperator):
                raise ConvergenceError(
                    f"Lanczos iteration found {len(error.eigenvalues)} of {count} eigenvalues (matrix of size {size}). "
                    "Ask for fewer components, or standardise the features."
                ) from error
    dense = _dense(matrix)
    if null is not None:
        dense = dense - 2 * _bound(dense) * (null @ null.T)
    values, vectors = _some(dense, size - count, size)
    return _ordered(values, vectors, ascending=False, expected=count)


def smallest(matrix: Matrix | sparse.csr_array, count: int, *, null: Matrix) -> Eigenpairs:
    """A v = m v for the `count` smallest m >= 0, ascending, off the known null vectors (orthonormal columns).

    Large problems: Lanczos iteration on the inverse from the factor of a band where one is narrow, else on lmax I - A;
    where that does not converge, on the inverse from a dense factor.
    """
    size = matrix.shape[0]
    count = min(count, size - null.shape[1])
    if count < 1:
        return Eigenpairs(np.empty(0), np.empty((size, 0)))
    if not _iterate(matrix, size, count):
        dense = _dense(matrix)
        raised = dense + 2 * _bound(dense) * (null @ null.T)
        values, vectors = _some(raised, 0, count)
        return _ordered(values, vectors, ascending=True, expected=count)
    matrix = sparse.csr_array(matrix)
    band = _Band.of(matrix)
    found = None if size < FACTOR_BELOW or band.narrow else _flipped(matrix, count, null)
    if found is None:
        operator = splinalg.LinearOperator((size, size), matvec=_off(_inverse(matrix, band), null), dtype=np.float64)
        found = _lanczos(operator, count, tolerance=1e-12)[1]  # an inverse converges far below that at once
    return _ordered(np.einsum("ij,ij->j", found, matrix @ found), found, ascending=True)


def warn_if_near_equal(values: Matrix, count: int) -> float:
    """Smallest relative gap among the first `count` eigenvalues and the next; warns below GAP_TOLERANCE."""
    head = values[: count + 1]
    if len(head) < 2:
        return 1.0
    size = np.maximum(np.abs(head[:-1]), np.abs(head[1:]))
    gaps = np.divide(np.abs(np.diff(head)), size, out=np.zeros(len(size)), where=size > 0)
    smallest_gap = float(gaps.min())
    if smallest_gap < GAP_TOLERANCE:
        where = int(gaps.argmin()) + 1
        warn(
            f"eigenvalues {where} and {where + 1} differ by {smallest_gap:.1e} of their size: the two axes are not "
            "determined by the data, nor is the importance of features on them. Read them together, or choose "
            "n_components so that no pair is split.",
            NearEqualEigenvaluesWarning,
        )
    return smallest_gap


def orient(vectors: Matrix) -> Matrix:
    """Columns with the sign that makes the entry of largest modulus positive."""
    peaks = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None, :], axis=0)
    return vectors * np.where(peaks < 0, -1.0, 1.0)


def _ordered(values: Matrix, vectors: Matrix, *, ascending: bool, expected: int | None = None) -> Eigenpairs:
    if expected is not None and len(values) < expected:
        raise ConvergenceError(f"the eigensolver returned {len(values)} of {expected} pairs. Ask for fewer components.")
    order = np.argsort(values if ascending else -values, kind="stable")
    return Eigenpairs(values[order], orient(vectors[:, order]))


def _iterate(matrix: Symmetric, size: int, count: int) -> bool:
    if isinstance(matrix, splinalg.LinearOperator):
        return True
    return size >= DENSE_BELOW and count < size // 8


def _by_blocks(matrix: Symmetric, count: int, null: Matrix | None) -> tuple[Matrix, Matrix] | None:
    """Pairs of the largest eigenvalues of a large dense matrix; None where blocks do not pay."""
    if not isinstance(matrix, np.ndarray) or len(matrix) < BLOCKS_FROM or not 1 < count <= BLOCKS_UP_TO:
        return None
    return davidson(matrix.T if matrix.flags.f_contiguous else np.ascontiguousarray(matrix), count, null)


def _lanczos(
    operator: splinalg.LinearOperator, count: int, restarts: int | None = None, width: int = 2, tolerance: float = 0.0
) -> tuple[Matrix, Matrix]:
    """Pairs of the largest eigenvalues; a basis `width` times as wide as their number, wider for crowded spectra."""
    size = operator.shape[0]
    if count >= size - 1:
        dense = operator @ np.eye(size)
        values, vectors = linalg.eigh((dense + dense.T) / 2, subset_by_index=[size - count, size - 1])
        return values, vectors
    start = np.random.default_rng(0).standard_normal(size)
    basis = min(size, max(width * count + 1, 20))
    values, vectors = splinalg.eigsh(
        operator, k=count, which="LA", v0=start, ncv=basis, maxiter=restarts, tol=tolerance
    )
    return values, vectors


def _product(matrix: Symmetric, null: Matrix | None) -> splinalg.LinearOperator:
    """v -> A v, off the null vectors; symmetric dense matrices are read once for each product."""
    if isinstance(matrix, np.ndarray):
        fortran = matrix.T if matrix.flags.c_contiguous else np.asfortranarray(matrix)

        def multiply(vector: Matrix) -> Matrix:
            product: Matrix = dsymv(1.0, fortran, np.ravel(vector), lower=1)
            return product
    else:

        def multiply(vector: Matrix) -> Matrix:
            product: Matrix = matrix @ np.ravel(vector)
            return product

    matvec = multiply if null is None else _off(multiply, null)
    return splinalg.LinearOperator(matrix.shape, matvec=matvec, dtype=np.float64)


def _off(apply, null: Matrix):  # type: ignore[no-untyped-def]
    """Apply between two projections off the null vectors."""

    def matvec(vector: Matrix) -> Matrix:
        vector = np.ravel(vector)
        image: Matrix = apply(vector - null @ (null.T @ vector))
        return image - null @ (null.T @ image)

    return matvec


@dataclass(frozen=True)
class _Band:
    """An order of the rows that brings the entries of a symmetric matrix near its diagonal, and how near."""

    order: NDArray[np.int32]
    width: int

    @classmethod
    def of(cls, matrix: sparse.csr_array) -> _Band:
        order = csgraph.reverse_cuthill_mckee(matrix, symmetric_mode=True)
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        rows = np.repeat(place, np.diff(matrix.indptr))
        return cls(order, int((rows - place[matrix.indices]).max(initial=0)))

    @property
    def narrow(self) -> bool:
        """Whether a factor stays sparse."""
        return self.width < len(self.order) // 6

    def lower(self, matrix: sparse.csr_array) -> Matrix:
        """Diagonals of the reordered matrix from the main one down, as LAPACK wants them."""
        entries = sparse.coo_array(sparse.triu(matrix[self.order][:, self.order]))  # symmetric: in order of columns
        band = np.zeros((self.width + 1, len(self.order)), order="F")
        band[entries.col - entries.row, entries.row] = entries.data
        return band


def _flipped(matrix: sparse.csr_array, count: int, null: Matrix) -> Matrix | None:
    """Eigenvectors of the smallest eigenvalues as those of the largest of lmax I - A; None where that is too slow."""
    size = matrix.shape[0]
    start = np.random.default_rng(0).standard_normal(size)
    try:
        top = splinalg.eigsh(matrix, k=1, which="LA", v0=start, tol=1e-2, return_eigenvectors=False)[0] * 1.02
        flip = _off(lambda vector: top * vector - matrix @ vector, null)
        return _lanczos(
            splinalg.LinearOperator((size, size), matvec=flip, dtype=np.float64), count, restarts=300, width=4
        )[1]
    except splinalg.ArpackNoConvergence:
        return None


def _inverse(matrix: sparse.csr_array, band: _Band):  # type: ignore[no-untyped-def]
    """b -> (A + e I)^-1 b with e so small that only the null vectors notice."""
    size = matrix.shape[0]
    scale = float(matrix.diagonal().max())
    if band.narrow and size * band.width > BAND_ENTRIES:
        shifted = sparse.csc_array(matrix + 1e-12 * scale * sparse.eye_array(size))
        factor = splinalg.splu(
            shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
        return factor.solve
    for shift in (1e-12, 1e-10, 1e-8):
        try:
            return _banded(matrix, band, shift * scale) if band.narrow else _full(matrix, shift * scale)
        except linalg.LinAlgError:
            continue
    raise ConvergenceError(f"a matrix of size {size} could not be factored. Check the features for extreme values.")


def _banded(matrix: sparse.csr_array, band: _Band, shift: float):  # type: ignore[no-untyped-def]
    """Solve by the Cholesky factor of a band."""
    lower = band.lower(matrix)
    lower[0] += shift
    factor = linalg.cholesky_banded(lower, overwrite_ab=True, lower=True, check_finite=False)

    def solve(vector: Matrix) -> Matrix:
        result = np.empty_like(vector)
        result[band.order] = linalg.cho_solve_banded((factor, True), vector[band.order], check_finite=False)
        return result

    return solve


def _full(matrix: sparse.csr_array, shift: float):  # type: ignore[no-untyped-def]
    """Solve by the Cholesky factor of the whole matrix."""
    dense = np.asfortranarray(matrix.toarray())
    dense.flat[:: len(dense) + 1] += shift
    factor = linalg.cho_factor(dense, overwrite_a=True, check_finite=False)
    return lambda vector: linalg.cho_solve(factor, vector, check_finite=False)


def _some(dense: Matrix, start: int, stop: int) -> tuple[Matrix, Matrix]:
    """Eigenpairs start, ..., stop - 1, ascending; above a fifth of them all pairs come sooner than some."""
    if 5 * (stop - start) > len(dense):
        values, vectors = linalg.eigh(dense, driver="evd", check_finite=False)
        return values[start:stop], vectors[:, start:stop]
    values, vectors = linalg.eigh(dense, subset_by_index=[start, stop - 1], check_finite=False)
    return values, vectors


def _dense(matrix: Symmetric) -> Matrix:
    if isinstance(matrix, np.ndarray):
        return matrix
    if isinstance(matrix, splinalg.LinearOperator):
        return np.asarray(matrix @ np.eye(matrix.shape[0]))
    return np.asarray(matrix.toarray())


def _bound(matrix: Matrix) -> float:
    """A bound on the modulus of every eigenvalue."""
    return float(np.abs(matrix).sum(axis=1).max()) or 1.0
