"""Precision and recall of rankings by distance, and whether a separation holds outside the training samples."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError, LabelFreeWarning

EQUAL = 1e-12
"""Distances within this share of the largest count as equal."""
MOST = 2000
"""Separation is judged on at most so many samples."""


@dataclass(frozen=True)
class Ranking:
    """What queries (rows) found, nearest first: relevant samples among the first 1, 2, ..., for each query.

    Samples at equal distance share their rank: the count rises evenly over them, whatever order they are stored in.
    """

    found: Matrix
    candidates: Any
    relevant: Any

    @property
    def defined(self) -> Any:
        """Which queries have a relevant sample at all."""
        return self.relevant > 0

    @property
    def precision(self) -> Matrix:
        """p(a): relevant share of the first a samples."""
        return self.found / np.arange(1, self.found.shape[1] + 1)

    @property
    def recall(self) -> Matrix:
        """r(a): share of the relevant samples that are among the first a; NaN where there are none."""
        total = np.where(self.defined, self.relevant, np.nan)
        return self.found / total[:, None]

    def average_precision(self) -> Matrix:
        """Sum of p(a) (r(a) - r(a - 1)) for each query; NaN where no sample is relevant."""
        return np.sum(self._steps() * self.precision, axis=1)

    def area(self) -> Matrix:
        """Area under p against r for each query by the trapezoid rule, from (0, p(1)) on; NaN where undefined."""
        precision = self.precision
        before = np.column_stack([precision[:, :1], precision[:, :-1]])
        return np.sum(self._steps() * (precision + before), axis=1) / 2

    def chance(self, measure: str) -> Matrix:
        """Expected area ("area") or average precision ("average_precision") of a random order, exactly."""
        count, relevant = self.candidates, self.relevant
        harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, self.found.shape[1] + 1))])[count]
        others = np.maximum(count - 1, 1)
        average = (harmonic + (relevant - 1) / others * (count - harmonic)) / np.maximum(count, 1)
        value = average if measure == "average_precision" else (average + relevant / np.maximum(count, 1)) / 2
        return np.where(self.defined, value, np.nan)

    def _steps(self) -> Matrix:
        return np.diff(self.recall, axis=1, prepend=0.0)


def rank(distances: Matrix, relevant: Any, allowed: Any) -> Ranking:
    """Rank samples (columns) for each query (row) among those that are allowed."""
    barred = np.where(allowed, distances, np.inf)
    order = np.argsort(barred, axis=1)
    lengths = np.take_along_axis(barred, order, axis=1)
    hits = np.take_along_axis(relevant & allowed, order, axis=1)
    return Ranking(_shared(np.cumsum(hits, axis=1), lengths), allowed.sum(axis=1), hits.sum(axis=1))


def _shared(found: Any, lengths: Matrix) -> Matrix:
    """Counts that rise evenly over samples at equal distance."""
    found = found.astype(float)
    finite = np.isfinite(lengths)
    scale = np.where(finite, lengths, 0.0).max(axis=1, initial=0.0)
    with np.errstate(invalid="ignore"):
        tied = (np.diff(lengths, axis=1) <= EQUAL * scale[:, None]) & finite[:, 1:]
    for row in np.flatnonzero(tied.any(axis=1)):
        ends = np.flatnonzero(np.append(~tied[row], True))
        at = np.concatenate([[-1], ends])
        found[row] = np.interp(np.arange(found.shape[1]), at, np.concatenate([[0.0], found[row, ends]]))
    return found


@dataclass(frozen=True)
class Separation:
    """Mean average precision among training samples and among held-out ones, each with its chance level.

    invented : what the training samples show above chance and the held-out ones do not
    """

    training: float
    training_chance: float
    held_out: float
    held_out_chance: float
    n_training: int
    n_held_out: int
    n_undefined: int

    @property
    def invented(self) -> float:
        """Lift over chance in training minus lift over chance outside."""
        return (self.training - self.training_chance) - (self.held_out - self.held_out_chance)

    def __str__(self) -> str:
        return (
            f"average precision among {self.n_training} training samples {self.training:.3f} "
            f"(chance {self.training_chance:.3f}), among {self.n_held_out} held-out samples {self.held_out:.3f} "
            f"(chance {self.held_out_chance:.3f}); {self.invented:+.3f} of the separation is not found again"
            + (f"; {self.n_undefined} queries have no relevant sample" if self.n_undefined else "")
        )


def separation(training: Matrix, y_training: Any, held_out: Matrix, y_held_out: Any) -> Separation:
    """Compare how labels separate in coordinates of training samples (-1 or missing left out) and of held-out ones."""
    values, chances, counts, undefined = [], [], [], 0
    for coordinates, labels, name in ((training, y_training, "training"), (held_out, y_held_out, "held-out")):
        labels = np.asarray(labels)
        if len(labels) != len(coordinates):
            raise InputError(f"{len(labels)} labels came for {len(coordinates)} {name} samples. Give one for each.")
        known = np.array([value is not None and value == value and value != -1 for value in labels.tolist()], bool)
        known &= _among(known, MOST)
        codes = np.unique(labels[known].astype(str), return_inverse=True)[1]
        if known.sum() < 2 or codes.max(initial=0) == 0:
            raise InputError(f"fewer than two classes came among the {name} samples; separation compares classes.")
        ranking = own_ranking(coordinates[known], codes)
        undefined += int((~ranking.defined).sum())
        values.append(float(np.nanmean(ranking.average_precision())))
        chances.append(float(np.nanmean(ranking.chance("average_precision"))))
        counts.append(int(known.sum()))
    return Separation(values[0], chances[0], values[1], chances[1], counts[0], counts[1], undefined)


def warn_of_strangers(known: Any, y: Any) -> None:
    """Say which labels of new samples were never learned."""
    names = set(np.asarray(known).tolist())
    asked = {value for value in np.asarray(y).tolist() if value is not None and value == value and value != -1}
    strangers = sorted(str(value) for value in asked - names)
    if strangers:
        warnings.warn(
            f"label {', '.join(strangers[:5])} was never seen in training: nothing was learned about it.",
            LabelFreeWarning,
            stacklevel=3,
        )


def _among(known: Any, most: int) -> Any:
    """A mask that leaves at most so many of the known rows, the same ones every time."""
    keep = np.zeros(len(known), dtype=bool)
    keep[np.random.default_rng(0).permutation(np.flatnonzero(known))[:most]] = True
    return keep


def own_ranking(coordinates: Matrix, codes: Any) -> Ranking:
    """Every sample as a query among all others, by Euclidean distance."""
    from scipy.spatial.distance import cdist

    same = np.equal.outer(codes, codes)
    return rank(cdist(coordinates, coordinates), same, ~np.eye(len(codes), dtype=bool))
