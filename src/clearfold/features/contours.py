"""How different are two glands in shape? Distances between closed contours, ready for `metric="precomputed"`.

Every distance is blind to where a contour lies, how it is turned, where it starts, which way round it runs, whether it
is seen in a mirror and how large it is (unless `size` is given). "concavity" is the default because it was the best on
real glands of patients that had no part in choosing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from clearfold.errors import InputError
from clearfold.features import contour_matching, contour_profiles
from clearfold.features.closed_contours import ClosedContours, Real, as_closed_contours

PROFILES: dict[str, Callable[[ClosedContours], Real]] = {
    "concavity": contour_profiles.concavity,
    "fourier": contour_profiles.fourier,
    "elliptic": contour_profiles.elliptic,
    "medial_axis": contour_profiles.medial_axis,
}
"""Methods that describe a contour by a row of numbers: the distance is the length of the difference."""
MATCHES: dict[str, tuple[Callable[[ClosedContours], Any], Callable[[Any, Any], Real]]] = {
    "elastic": (contour_matching.curves, contour_matching.elastic),
    "thin_plate": (contour_matching.plates, contour_matching.thin_plate),
}
"""Methods that lay one contour upon another: how to prepare contours, and one against many."""
METHODS = (*PROFILES, *MATCHES)
MOST = 512
"""Contours that one is matched with at a time, so that memory stays bounded."""


def shape_distance(a: Any, b: Any, method: str = "concavity", *, size: float = 0.0) -> float:
    """sqrt(d(a, b)^2 + (size ln(size_a / size_b))^2), d one of METHODS, size_a the square root of the area of a.

    a, b : closed contours, (k, 2) arrays of x, y; the last point need not repeat the first

    >>> square = [(0, 0), (2, 0), (2, 2), (0, 2)]
    >>> shape_distance(square, [(5, 5), (5, 9), (9, 9), (9, 5)], "fourier") < 1e-9
    True
    """
    return float(shape_distances_to([a], [b], method, size=size)[0, 0])


def shape_distances(
    contours: Iterable[Any], method: str = "concavity", *, size: float = 0.0, n_jobs: int | None = None
) -> Real:
    """Distances of all contours from each other: (n, n), symmetric, 0 on the diagonal, finite.

    contours : n closed contours, each a (k, 2) array of x, y
    size : how much a size e times as large counts; 0 leaves size out
    n_jobs : threads for "elastic" and "thin_plate"; -1 takes every core
    """
    check(method, size)
    closed = as_closed_contours(contours)
    if method in PROFILES:
        distances = _lengths(*[PROFILES[method](closed)] * 2)
    else:
        distances = _half_matched(closed, method, n_jobs)
        distances += distances.T
    return _without_diagonal(_with_size(distances, closed, closed, size))


def shape_distances_to(
    new: Iterable[Any],
    contours: Iterable[Any],
    method: str = "concavity",
    *,
    size: float = 0.0,
    n_jobs: int | None = None,
) -> Real:
    """Distances of new contours from earlier ones, (n_new, n): what `transform` of a fitted embedding takes."""
    check(method, size)
    left, right = as_closed_contours(new, "new"), as_closed_contours(contours)
    if method in PROFILES:
        distances = _lengths(PROFILES[method](left), PROFILES[method](right))
    else:
        prepare, compare = MATCHES[method]
        ready, others = prepare(left), prepare(right)
        rows = _in_threads(lambda row: _one_row(compare, ready.take([row]), others), len(left), n_jobs)
        distances = np.array(rows).reshape(len(left), len(right))
    return _with_size(distances, left, right, size)


def check(method: str, size: float) -> None:
    """Refuse a method that is not there and a weight that is none."""
    if method not in METHODS:
        raise InputError(f"method={method!r} came; {', '.join(map(repr, METHODS))} are known.")
    if isinstance(size, bool) or not isinstance(size, int | float | np.number) or not 0 <= size < np.inf:
        raise InputError(f"size={size!r} came; a weight is wanted, 0 (leave size out) or more.")


def _lengths(left: Real, right: Real) -> Real:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(left, right)) if len(left) and len(right) else np.zeros((len(left), len(right)))


def _half_matched(closed: ClosedContours, method: str, n_jobs: int | None) -> Real:
    """Distances of each contour from all later ones; the other half stays 0."""
    prepare, compare = MATCHES[method]
    ready = prepare(closed)
    count = len(closed)
    rows = _in_threads(lambda row: _one_row(compare, ready.take([row]), ready, row + 1), count, n_jobs)
    distances = np.zeros((count, count))
    for row, values in enumerate(rows):
        distances[row, row + 1 :] = values
    return distances


def _one_row(compare: Callable[[Any, Any], Real], one: Any, many: Any, first: int = 0) -> Real:
    """One contour against the others from `first` on, MOST at a time."""
    count = len(many)
    parts = [compare(one, many.take(slice(at, min(at + MOST, count)))) for at in range(first, count, MOST)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _in_threads(function: Callable[[int], Real], count: int, n_jobs: int | None) -> list[Real]:
    """function(0), ..., function(count - 1), in threads when more than one is asked for."""
    if n_jobs in (None, 1):
        return [function(row) for row in range(count)]
    from joblib import Parallel, delayed

    return list(Parallel(n_jobs=n_jobs, prefer="threads")(delayed(function)(row) for row in range(count)))


def _with_size(distances: Real, left: ClosedContours, right: ClosedContours, size: float) -> Real:
    if not size:
        return distances
    return np.hypot(distances, size * np.subtract.outer(np.log(left.size), np.log(right.size)))


def _without_diagonal(distances: Real) -> Real:
    np.fill_diagonal(distances, 0.0)
    return distances
