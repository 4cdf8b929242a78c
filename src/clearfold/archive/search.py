"""Nearest points: exact in memory, or by an approximate index whose answers are measured again exactly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearfold.archive.store import Floats, Numbers
from clearfold.errors import MissingExtraError

EXACT_UP_TO = 100_000
"""Cases that are searched one by one; an index serves the others."""
BLOCK = 256
SPARE = 8
"""Points that are proposed beyond the wanted ones, so that ties at the end are seen."""
LISTS = 2.0
"""Lists of the index, in units of sqrt(n)."""
WANTED_RECALL, TRIALS = 0.996, 256
"""Share of the ten nearest that the index has to find among so many of its own points."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Points:
    """Coordinates in memory: `numbers` (n,) ascending, `places` (n, h); a first look is taken in single precision."""

    numbers: Numbers
    places: Floats
    centre: Floats
    short: NDArray[np.float32]
    squares: NDArray[np.float32]

    @classmethod
    def of(cls, numbers: Numbers, places: Floats) -> Points:
        """Points around their mean, so that single precision is not spent on where they lie."""
        centre = places.mean(axis=0) if len(places) else np.zeros(places.shape[1])
        short = np.ascontiguousarray(places - centre, dtype=np.float32)
        return cls(numbers, places, centre, short, np.einsum("ij,ij->i", short, short))

    def more(self, numbers: Numbers, places: Floats) -> Points:
        """These and later ones."""
        if not len(numbers):
            return self
        if not len(self.numbers):
            return Points.of(numbers, places)
        short = (places - self.centre).astype(np.float32)
        return Points(
            np.concatenate([self.numbers, numbers]),
            np.concatenate([self.places, places]),
            self.centre,
            np.concatenate([self.short, short]),
            np.concatenate([self.squares, np.einsum("ij,ij->i", short, short)]),
        )

    def at(self, numbers: Numbers) -> Mask:
        """Which of the points have one of these numbers (ascending)."""
        mask = np.zeros(len(self.numbers), dtype=bool)
        mask[rows_with(self.numbers, numbers)] = True
        return mask

    def nearest(self, point: Floats, k: int, allowed: Mask | None = None) -> tuple[Numbers, Floats]:
        """Numbers and distances of the k nearest, and of all that are as near as the last of them; in no order."""
        rows = self._first_look(point, k, allowed)
        distances = distances_to(point, self.places[rows])
        if len(rows) > k:
            near = distances <= np.partition(distances, k - 1)[k - 1]
            rows, distances = rows[near], distances[near]
        return self.numbers[rows], distances

    def _first_look(self, point: Floats, k: int, allowed: Mask | None) -> NDArray[np.intp]:
        """Rows that may be among the k nearest: single precision, and as much more as its rounding can hide."""
        short = (point - self.centre).astype(np.float32)
        squares = self.short @ (-2.0 * short)
        squares += self.squares
        if allowed is not None:
            squares[~allowed] = np.inf
        n_allowed = len(squares) if allowed is None else int(allowed.sum())
        if n_allowed <= k:
            return np.arange(len(squares)) if allowed is None else np.flatnonzero(allowed)
        # a sum of h products is off by at most h + 2 roundings of what is added up
        largest = float(self.squares.max()) + float(short @ short)
        slack = 4.0 * (len(short) + 2) * float(np.finfo(np.float32).eps) * largest
        near = np.flatnonzero(squares <= _bound(squares, k) + slack)
        last = float(np.partition(squares[near], k - 1)[k - 1])
        return near[squares[near] <= last + slack]


def _bound(values: NDArray[np.float32], k: int) -> float:
    """A number that at least k values do not exceed, without sorting them: k-th smallest of the minima of blocks."""
    blocks = len(values) // BLOCK
    if blocks >= 4 * k:
        minima = values[: blocks * BLOCK].reshape(blocks, BLOCK).min(axis=1)
        bound = float(np.partition(minima, k - 1)[k - 1])
        if np.isfinite(bound):
            return bound
    return float(np.partition(values, k - 1)[k - 1])


def rows_with(numbers: Numbers, wanted: Numbers) -> NDArray[np.intp]:
    """Rows of `numbers` (ascending) that hold one of the wanted numbers; those that are not there are left out."""
    if not len(numbers) or not len(wanted):
        return np.empty(0, dtype=np.intp)
    if int(numbers[-1]) - int(numbers[0]) + 1 == len(numbers):  # without gaps a number says where it is
        rows = wanted - numbers[0]
        return rows[(rows >= 0) & (rows < len(numbers))]
    rows = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return rows[numbers[rows] == wanted]


def distances_to(point: Floats, places: Floats) -> Floats:
    """Euclidean distances, each computed in the same way whatever stands beside it."""
    apart = places - point
    return np.sqrt(np.einsum("ij,ij->i", apart, apart))


class Index:
    """Points in lists around centres (IVF): only the lists near a query are looked at.

    It proposes, distances are measured elsewhere. Chosen over a graph of neighbours (HNSW) because a million points are
    indexed in seconds instead of minutes, at the same recall and a query time below a millisecond.
    """

    def __init__(self, lists: Any, centre: Floats, last: int) -> None:
        self._lists = lists
        self._centre = centre
        self.last = last
        """The number of the last case in it."""

    @classmethod
    def build(cls, numbers: Numbers, places: Floats) -> Index:
        """All these points; as many lists are looked at as WANTED_RECALL needs among the points themselves."""
        faiss = _faiss()
        centre = places.mean(axis=0)
        short = (places - centre).astype(np.float32)
        n, h = short.shape
        lists = faiss.IndexIVFFlat(faiss.IndexFlatL2(h), h, max(1, int(LISTS * n**0.5)))
        lists.cp.niter, lists.cp.min_points_per_centroid, lists.cp.max_points_per_centroid = 10, 1, 64
        random = np.random.default_rng(0)
        lists.train(short[np.sort(random.choice(n, min(n, 64 * lists.nlist), replace=False))])
        lists.add_with_ids(short, numbers.astype(np.int64))
        lists.nprobe = _enough(lists, short, random.choice(n, min(n, TRIALS), replace=False))
        return cls(lists, centre, int(numbers[-1]))

    @classmethod
    def load(cls, lists: bytes, about: bytes) -> Index:
        """From what `dump` gave."""
        said = json.loads(about)
        loaded = _faiss().deserialize_index(np.frombuffer(lists, dtype=np.uint8))
        return cls(loaded, np.array(said["centre"], dtype=np.float64), int(said["last"]))

    def dump(self) -> tuple[bytes, bytes]:
        """The lists, and what else is needed, as bytes."""
        about = {"centre": self._centre.tolist(), "last": self.last}
        return _faiss().serialize_index(self._lists).tobytes(), json.dumps(about).encode()

    def propose(self, point: Floats, count: int) -> list[int] | None:
        """Numbers of about the `count` nearest points, and of those that rounding cannot tell from the last of them.

        None when that may be more than were asked for.
        """
        short = (point - self._centre).astype(np.float32)
        squares, numbers = self._lists.search(short[None], count + SPARE)
        found = squares[0][numbers[0] >= 0]
        if len(found) <= count:
            return None
        last, length = float(found[count - 1]), float(np.sqrt(short @ short))
        # differences are rounded, and so were the points themselves: they are at most |point| + distance long
        rounding = (len(short) + 2) * last + 2.0 * np.sqrt(last) * (2.0 * length + np.sqrt(last))
        near = int(np.searchsorted(found, last + 8.0 * float(np.finfo(np.float32).eps) * rounding, side="right"))
        return None if near == len(found) else numbers[0][:near].tolist()


def _enough(lists: Any, short: NDArray[np.float32], trials: NDArray[np.int64]) -> int:
    """How many lists to look at so that the ten nearest of these points are found."""
    queries = short[trials]
    k = min(11, len(short))  # a point finds itself as well
    lists.nprobe = lists.nlist
    _, truth = lists.search(queries, k)
    probes = max(1, lists.nlist // 64)
    while probes < lists.nlist:
        lists.nprobe = probes
        _, found = lists.search(queries, k)
        hits = sum(len(np.intersect1d(one, two)) for one, two in zip(found, truth, strict=True))
        if hits >= WANTED_RECALL * truth.size:
            break
        probes = min(lists.nlist, int(probes * 1.25) + 1)
    return int(probes)


def can_index() -> bool:
    """Whether the library of approximate search is installed; without it every search is exact."""
    try:
        _faiss()
    except MissingExtraError:
        return False
    return True


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError(
            "Approximate search needs faiss-cpu, which is not installed. Install it with: pip install "
            "'clearfold[archive]'"
        ) from error
    return faiss
