"""Who asks, who may be found, and who is whose patient: checked once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from clearfold.embedding.distances import blocks
from clearfold.embedding.precision import Ranking, rank
from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError
from clearfold.selection.columns import binary_exponent, in_range

METRICS = ("euclidean", "cosine", "precomputed")


class Asked:
    """Coordinates, labels and patients, checked once."""

    def __init__(self, coordinates: Any, labels: Any, groups: Any, metric: str) -> None:
        self.coordinates = np.asarray(coordinates, dtype=float)
        if self.coordinates.ndim != 2 or not np.isfinite(self.coordinates).all():
            raise InputError(
                f"coordinates of shape {self.coordinates.shape} came; a finite table with one row each is wanted."
            )
        self.size = len(self.coordinates)
        if metric not in METRICS:
            raise InputError(f"metric={metric!r} came; {', '.join(map(repr, METRICS))} are known.")
        if metric == "precomputed":
            if self.coordinates.shape != (self.size, self.size):
                raise InputError(f"distances of shape {self.coordinates.shape} came; a square table is wanted.")
            if self.coordinates.min(initial=0.0) < 0:
                raise InputError(f"a distance of {self.coordinates.min():.3g} came; distances are not negative.")
        self.metric = metric
        self.coordinates = _in_range(self.coordinates, metric)
        self.names, self.codes = np.unique(column(labels, self.size, "labels"), return_inverse=True)
        self.patients = self._patients(groups)

    def _patients(self, groups: Any) -> Any:
        if groups is None:
            raise InputError(
                "no groups came: images of one patient find each other whether or not the labels mean anything. Give "
                "the patient of each sample, or groups='each' if every sample is a patient of its own."
            )
        if isinstance(groups, str):
            if groups != "each":
                raise InputError(f"groups={groups!r} came; a patient for each sample, or 'each', is wanted.")
            return np.arange(self.size)
        return np.unique(column(groups, self.size, "groups"), return_inverse=True)[1]

    def chosen(self, rows: Any, name: str) -> Any:
        """Row numbers from a mask, numbers or None."""
        if rows is None:
            return np.arange(self.size)
        rows = np.asarray(rows)
        if rows.dtype == bool and len(rows) != self.size:
            raise InputError(f"{name} is a mask of {len(rows)} for {self.size} samples.")
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(int)
        if not len(rows):
            raise InputError(f"no sample is among the {name}.")
        return rows

    def distances(self, rows: Any, columns: Any) -> Matrix:
        """Distances of rows to columns."""
        if self.metric == "precomputed":
            return self.coordinates[np.ix_(rows, columns)]
        if self.metric == "cosine":
            return np.maximum(1.0 - self._unit[rows] @ self._unit[columns].T, 0.0)
        return cdist(self.coordinates[rows], self.coordinates[columns])

    @cached_property
    def _unit(self) -> Matrix:
        length = np.linalg.norm(self.coordinates, axis=1, keepdims=True)
        return self.coordinates / np.where(length > 0, length, 1.0)

    def rankings(self, rows: Any, columns: Any) -> Iterator[tuple[Any, Ranking]]:
        """Rankings of the database for some queries at a time."""
        for part in blocks(len(rows), len(columns)):
            at = rows[part]
            allowed = self.patients[at][:, None] != self.patients[columns]
            yield at, rank(self.distances(at, columns), self.codes[at][:, None] == self.codes[columns], allowed)


def _in_range(table: Matrix, metric: str) -> Matrix:
    """Coordinates whose squares can be computed: times one power of two, by cosine one a row; no rank changes."""
    if not table.size or metric == "precomputed":
        return table
    if metric == "cosine":
        return in_range(table.T).T
    return np.asarray(np.ldexp(table, -int(binary_exponent(table).max())), dtype=float)


def column(values: Any, size: int, name: str) -> Any:
    """One value for each sample, none missing."""
    values = np.asarray(values)
    if values.shape != (size,):
        raise InputError(f"{name} of shape {values.shape} came for {size} samples. Give one for each row.")
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise InputError(f"{name} are missing for {int(np.isnan(values).sum())} samples. Leave these rows out.")
    return values.astype(str) if values.dtype == object else values
