"""How alike samples are: kernels of distances."""

from __future__ import annotations

import numpy as np

from clearfold.embedding.spectral import Matrix


def gaussian(squared: Matrix, bandwidth: float) -> Matrix:
    """exp(-D^2 / 2 s^2), written over the squared distances."""
    np.multiply(squared, -0.5 / bandwidth**2, out=squared)
    return np.exp(squared, out=squared)


def exponential(squared: Matrix, bandwidth: float, power: float) -> Matrix:
    """exp(-D^p / s), written over the squared distances."""
    if power != 2:
        np.power(squared, power / 2, out=squared) if power != 1 else np.sqrt(squared, out=squared)
    np.multiply(squared, -1.0 / bandwidth, out=squared)
    return np.exp(squared, out=squared)


def median_power(squared: Matrix, power: float = 1.0) -> float:
    """Median of D^power over all pairs, from the table of squared distances; 1 when every pair coincides."""
    pairs = np.concatenate([row[i + 1 :] for i, row in enumerate(squared)])
    middle = float(np.median(np.power(pairs, power / 2, out=pairs), overwrite_input=True))
    return middle if middle > 0 else 1.0
