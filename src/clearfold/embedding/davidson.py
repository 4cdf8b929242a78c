"""Largest eigenpairs of a dense symmetric matrix by blocks: a few wide products instead of many narrow ones.

A Lanczos step reads the whole matrix for one vector; a block of vectors costs little more. Block Davidson iteration:

1. Some columns of the matrix (landmarks) span nearly what the leading eigenvectors span: one power step for nothing.
2. Rayleigh-Ritz on that basis, then the basis grows by the residuals of the wanted pairs, until these vanish.
3. Random guard vectors grow along, as a Krylov space of their own: an eigenvector that no landmark sees is found there.

Nothing is returned that was not checked: residuals at TOLERANCE, orthonormal vectors; else None, and the caller goes
another way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import lapack

Rows = NDArray[np.float64]
"""Vectors as rows, which keeps each of them together in memory."""

TOLERANCE = 1e-13
"""Residuals |A v - l v| end below this share of the largest |l|."""
LANDMARKS = 384
"""Columns from which the first basis is made."""
SHARE = 0.25
"""The first basis holds directions down to this share of the last wanted one: they are what slows convergence."""
LEAST_STEPS, MOST_STEPS = 3, 20
"""Steps in which guards have seen enough; steps after which Lanczos iteration would have been as fast."""
STRIP = 1_000_000
"""Products of up to this number of multiplications are done by BLAS without copying the matrix first."""


def davidson(matrix: Rows, count: int, null: Rows | None = None) -> tuple[Rows, Rows] | None:
    """A v = l v for the `count` largest l, descending, off the columns of `null`; None where blocks do not pay.

    matrix : symmetric, C-contiguous
    """
    random = np.random.default_rng(0)
    guards = 3 - (count + 3) % -8  # blocks of a multiple of 8
    leading = _leading(matrix, count, null, random)
    if leading is None:
        return None
    start = _orthonormal(_off(np.vstack([leading, random.standard_normal((guards, len(matrix)))]), null))
    space = _Space(len(start) + MOST_STEPS * (count + guards), len(matrix))
    block, image = start, start @ matrix
    before = np.inf
    for step in range(MOST_STEPS + 1):
        space.add(block, image)
        values, weights = space.ritz(count)
        residuals = _off(space.residuals(values, weights), null)
        sizes = np.linalg.norm(residuals, axis=1)
        goal = TOLERANCE * float(np.abs(values).max())
        if step >= LEAST_STEPS and sizes.max() <= goal:
            vectors = space.vectors(weights)
            return (values, vectors.T) if _is_orthonormal(vectors) else None
        if step > LEAST_STEPS and not _arrives(sizes.max() / goal, before, MOST_STEPS - step):
            return None
        before = sizes.max() / goal
        new = space.outside(_off(np.vstack([residuals[sizes > goal], image[-guards:]]), null))
        if new is None:
            return None
        block, image = new, times(matrix, new.T).T
    return None


def times(matrix: Rows, block: Rows) -> Rows:
    """A V for a few columns, by strips of rows so short that BLAS reads them in place; a copy of A costs more."""
    size, width = block.shape
    strip = min(8, STRIP // (size * width))
    if strip < 3:
        return np.asarray(matrix @ block)
    even = size - size % strip
    product = np.empty((size, width))
    block = np.ascontiguousarray(block)
    np.matmul(matrix[:even].reshape(-1, strip, size), block, out=product[:even].reshape(-1, strip, width))
    np.matmul(matrix[even:], block, out=product[even:])
    return product


class _Space:
    """Orthonormal rows, their images under A, and A between them."""

    def __init__(self, most: int, size: int) -> None:
        self._basis, self._images = np.empty((most, size)), np.empty((most, size))
        self._inner = np.zeros((most, most))
        self._filled = 0

    def add(self, block: Rows, image: Rows) -> None:
        start, stop = self._filled, self._filled + len(block)
        self._basis[start:stop], self._images[start:stop] = block, image
        self._inner[:stop, start:stop] = self._basis[:stop] @ image.T
        self._filled = stop

    def ritz(self, count: int) -> tuple[Rows, Rows]:
        """The largest values of A on the space, descending, and the weights of their vectors (rows)."""
        inner = self._inner[: self._filled, : self._filled]
        values, vectors = linalg.eigh(inner, lower=False, driver="evd", check_finite=False)
        return values[::-1][:count], np.ascontiguousarray(vectors.T[::-1][:count])

    def vectors(self, weights: Rows) -> Rows:
        return np.asarray(weights @ self._basis[: self._filled])

    def residuals(self, values: Rows, weights: Rows) -> Rows:
        """A v - l v."""
        return np.asarray(weights @ self._images[: self._filled]) - self.vectors(values[:, None] * weights)

    def outside(self, rows: Rows) -> Rows | None:
        """Orthonormal rows that add these to the space; None where nothing is left of one."""
        basis = self._basis[: self._filled]
        for _ in range(2):  # twice is enough
            lengths = np.linalg.norm(rows, axis=1)
            if not lengths.all():
                return None
            rows = rows / lengths[:, None]
            rows -= (rows @ basis.T) @ basis
        return _orthonormal(rows)


def _leading(matrix: Rows, count: int, null: Rows | None, random: np.random.Generator) -> Rows | None:
    """Leading directions among some columns of the matrix, as many as come near the wanted ones.

    None where so few do that Lanczos iteration needs few steps, or so many that no basis could hold them.
    """
    size = len(matrix)
    chosen = np.sort(random.choice(size, min(LANDMARKS, size // 4), replace=False))
    if count + 8 >= len(chosen) // 2:
        return None
    columns = _off(matrix[chosen], null)
    columns = (columns / (np.abs(columns).max() or 1.0)).astype(np.float32)  # directions alone matter here
    squares, vectors = linalg.eigh(columns @ columns.T, driver="evd", check_finite=False)
    near = int((squares > SHARE**2 * squares[-count]).sum())
    if not count + 8 < near <= len(chosen) // 2:
        return None
    return np.asarray(vectors.T[::-1][:near] @ columns, dtype=np.float64)


def _off(rows: Rows, null: Rows | None) -> Rows:
    """Rows without their parts along known vectors (columns)."""
    return rows if null is None else rows - (rows @ null) @ null.T


def _orthonormal(rows: Rows) -> Rows:
    """The same space; by a Cholesky factor where rows are far from dependent."""
    lengths = np.linalg.norm(rows, axis=1)
    scaled = rows / np.where(lengths > 0, lengths, 1.0)[:, None]
    lower, failed = lapack.dpotrf(scaled @ scaled.T, lower=1, clean=1)
    if failed == 0 and np.diagonal(lower).min() > 0.5:
        return np.asarray(linalg.inv(lower, check_finite=False) @ scaled)
    return np.ascontiguousarray(linalg.qr(scaled.T, mode="economic", overwrite_a=True, check_finite=False)[0].T)


def _is_orthonormal(rows: Rows) -> bool:
    return bool(np.abs(rows @ rows.T - np.eye(len(rows))).max() < 1e-12)


def _arrives(now: float, before: float, steps: int) -> bool:
    """Whether residuals (in units of the goal) that fall at this rate are small enough in as many steps."""
    return bool(now < before and np.log(now) <= steps * np.log(before / now))
