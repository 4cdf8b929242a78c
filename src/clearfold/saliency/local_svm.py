"""The linear support vector machine of one cell, and its signed saliency t = w / max|w|."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.svm import SVC

from clearfold.embedding.spectral import Matrix

TOLERANCE = 1e-5


@dataclass(frozen=True)
class LinearSvm:
    """r = w x + b; positive r speaks for the positive class."""

    w: Matrix
    b: float

    @property
    def saliency(self) -> Matrix:
        """t = w / max|w|, signed; the modulus keeps the signs of a w whose entries are all negative."""
        largest = float(np.abs(self.w).max())
        return self.w / largest if largest > 0 else self.w


def linear_svm(
    X: Matrix, positive: Any, C: float = 1.0, *, gram: Matrix | None = None, weight: Matrix | None = None
) -> LinearSvm:
    """Soft-margin machine of samples X (n, m), `positive` true or false for each; both must occur.

    gram : X X', when it is at hand: then no product over m features is made again (m > n)
    weight : of each sample, multiplies C
    """
    machine = SVC(kernel="linear" if gram is None else "precomputed", C=C, tol=TOLERANCE, cache_size=50)
    machine.fit(X if gram is None else gram, np.asarray(positive, dtype=int), sample_weight=weight)
    if gram is None:
        return LinearSvm(machine.coef_[0].copy(), float(machine.intercept_[0]))
    return LinearSvm(machine.dual_coef_[0] @ X[machine.support_], float(machine.intercept_[0]))


@dataclass
class CellMachines:
    """Machines of cells, each set of members solved once; in the dual when features outnumber samples."""

    X: Matrix
    positive: Any
    C: float
    _known: dict[bytes, LinearSvm] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wide = self.X.shape[1] > self.X.shape[0]
        self._gram = self.X @ self.X.T if wide else None

    def of(self, members: Any) -> LinearSvm:
        """The machine of the samples where `members` is true."""
        key = np.packbits(members).tobytes()
        if key not in self._known:
            rows = np.flatnonzero(members)
            gram = None if self._gram is None else np.ascontiguousarray(self._gram[np.ix_(rows, rows)])
            self._known[key] = linear_svm(self.X[rows], self.positive[rows], self.C, gram=gram)
        return self._known[key]

    def weighted(self, weight: Matrix) -> LinearSvm | None:
        """The machine of samples that count by `weight`; None when a class is missing among them."""
        rows = np.flatnonzero(weight > 1e-3)
        if len(set(self.positive[rows].tolist())) < 2:
            return None
        gram = None if self._gram is None else np.ascontiguousarray(self._gram[np.ix_(rows, rows)])
        return linear_svm(self.X[rows], self.positive[rows], self.C, gram=gram, weight=weight[rows])
