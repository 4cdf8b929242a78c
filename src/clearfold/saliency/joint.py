"""One vector for each cell: how its features rank, and where it lies."""

from __future__ import annotations

import numpy as np

from clearfold.embedding.spectral import Matrix


def joint_vectors(T: Matrix, centres: Matrix, position: float = 0.5, weight: Matrix | None = None) -> Matrix:
    """z = [ sqrt(1-position) t / sqrt(V_T) ; sqrt(position) c / sqrt(V_C) ], V the total variance of each block.

    T : (cells, m) saliency; centres : (cells, d) means of the cells; position : 0 to 1, share of the place
    weight : how often each cell occurred. With position 0 or 1 the other block is left out. The variance of all z is 1.
    """
    blocks = [(1.0 - position, T), (position, centres)]
    parts = [np.sqrt(share) * block / _spread(block, weight) for share, block in blocks if share > 0]
    return np.hstack(parts)


def _spread(block: Matrix, weight: Matrix | None) -> float:
    """Square root of the summed variances; 1 where nothing varies."""
    mean = np.average(block, axis=0, weights=weight)
    total = float(np.average(((block - mean) ** 2).sum(axis=1), weights=weight))
    return float(np.sqrt(total)) if total > 1e-24 else 1.0
