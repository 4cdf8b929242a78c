"""How well found objects agree with true ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clearfold.errors import InputError
from clearfold.objects.collection import Floats, Objects, as_objects


@dataclass(frozen=True)
class Agreement:
    """Counts of objects, and measures from 0 (nothing agrees) to 1 (the same labels).

    A true and a found object are a match when their intersection over union is above `iou`; from 0.5 on no object can
    have two. `precision`, `recall` and `f1` (= `rq`) count matches; `sq` is the mean IoU of the matches, `pq` = sq rq
    (Kirillov 2019); `aji` sums pixels over all objects (Kumar 2017); `dice` knows no objects, only the foreground.
    Without any true and found object everything is 1.
    """

    n_true: int
    n_found: int
    n_matched: int
    precision: float
    recall: float
    f1: float
    sq: float
    rq: float
    pq: float
    aji: float
    dice: float


@dataclass(frozen=True)
class _Pairs:
    """Every pair of a true and a found object that share a pixel, and the areas of all."""

    true: NDArray[np.int64]
    found: NDArray[np.int64]
    shared: NDArray[np.int64]
    true_areas: NDArray[np.int64]
    found_areas: NDArray[np.int64]

    @property
    def union(self) -> NDArray[np.int64]:
        return self.true_areas[self.true] + self.found_areas[self.found] - self.shared


def match(truth: ArrayLike | Objects, found: ArrayLike | Objects, iou: float = 0.5) -> Agreement:
    """Agreement of two label images of one size: F1, PQ = sum(IoU of matches) / (matches + half of the others), AJI."""
    if not 0.5 <= iou < 1:
        raise InputError(f"iou={iou} came; wanted is 0.5 or more and less than 1, so that matches are unique.")
    true = truth if isinstance(truth, Objects) else Objects.from_labels(truth)
    other = as_objects(found, true.shape)
    pairs = _pairs(true, other)
    overlap = pairs.shared / pairs.union
    matched = overlap > iou
    n_matched, either = int(matched.sum()), len(true) + len(other)
    f1 = _share(2 * n_matched, either, 1.0)
    sq = _share(float(overlap[matched].sum()), n_matched, 1.0 if either == 0 else 0.0)
    foreground = int(pairs.true_areas.sum() + pairs.found_areas.sum())
    return Agreement(
        n_true=len(true),
        n_found=len(other),
        n_matched=n_matched,
        precision=_share(n_matched, len(other), 1.0 if either == 0 else 0.0),
        recall=_share(n_matched, len(true), 1.0 if either == 0 else 0.0),
        f1=f1,
        sq=sq,
        rq=f1,
        pq=sq * f1,
        aji=_aji(pairs, overlap),
        dice=_share(2 * int(pairs.shared.sum()), foreground, 1.0),
    )


def _pairs(true: Objects, found: Objects) -> _Pairs:
    """One pass over the pixels: each pair of labels is one number."""
    width = len(found) + 1
    both = true.labels.ravel().astype(np.int64) * width + found.labels.ravel()
    code, shared = np.unique(both[(true.labels.ravel() > 0) & (found.labels.ravel() > 0)], return_counts=True)
    return _Pairs(code // width - 1, code % width - 1, shared, true.areas, found.areas)


def _aji(pairs: _Pairs, overlap: Floats) -> float:
    """Each true object with the found one of largest IoU: sum of intersections / sum of unions and of all left over.

    A found object may serve two true ones, as in the code that came with the paper.
    """
    total = int(pairs.true_areas.sum() + pairs.found_areas.sum())
    if total == 0:
        return 1.0
    order = np.lexsort((-overlap, pairs.true))
    _, first = np.unique(pairs.true[order], return_index=True)
    best = order[first]
    lonely = np.setdiff1d(np.arange(len(pairs.true_areas)), pairs.true[best])
    unused = np.setdiff1d(np.arange(len(pairs.found_areas)), pairs.found[best])
    union = pairs.union[best].sum() + pairs.true_areas[lonely].sum() + pairs.found_areas[unused].sum()
    return float(pairs.shared[best].sum() / union)


def _share(part: float, whole: float, of_nothing: float) -> float:
    return float(part / whole) if whole else of_nothing
