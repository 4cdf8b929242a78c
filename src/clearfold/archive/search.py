"""Nearest points by faiss: an approximate index whose answers are measured again elsewhere, and a plain first look."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearfold.archive.store import Floats, Numbers
from clearfold.errors import MissingExtraError

EXACT_UP_TO = 100_000
"""Cases that are searched one by one; an index serves the others."""
SPARE = 8
"""Points that are proposed beyond the wanted ones, so that ties at the end are seen."""
LISTS = 2.0
"""Lists of the index, in units of sqrt(n)."""
WANTED_RECALL, TRIALS = 0.995, 256
"""Share of the ten nearest others that the index has to find of so many of its own points."""
COARSE = range(8, 65)
"""Numbers of coordinates that are rounded to 4 bits each for a first look; of fewer or more they are not."""
CANDIDATES = 3
"""How many times the wanted points are taken from that first look."""


class Index:
    """Points in lists around centres (IVF): only the lists near a query are looked at.

    It proposes, distances are measured elsewhere. With a first look at rounded coordinates (COARSE) a query takes less
    time than with a graph of neighbours (HNSW) at the same recall, and a million points are indexed in seconds instead
    of minutes.
    """

    def __init__(self, lists: Any, centre: Floats, last: int) -> None:
        self._lists = lists
        self._centre = centre
        self.last = last
        """The number of the last case in it."""

    @classmethod
    def build(cls, numbers: Numbers, places: Floats) -> Index:
        """All these points; as many lists are looked at as WANTED_RECALL needs among the points themselves."""
        centre = places.mean(axis=0)
        short = (places - centre).astype(np.float32)
        n, h = short.shape
        count = max(1, int(LISTS * n**0.5))
        lists, random = _empty(h, count), np.random.default_rng(0)
        lists.train(short[np.sort(random.choice(n, min(n, 64 * count), replace=False))])
        lists.add_with_ids(short, numbers.astype(np.int64))
        _choose_breadth(lists, numbers, short, random.choice(n, min(n, TRIALS), replace=False))
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


def _empty(h: int, count: int) -> Any:
    """An index of so many lists; with a first look at rounded coordinates (PQ) and a second at all of them (RFlat)."""
    faiss = _faiss()
    lists = faiss.index_factory(h, f"IDMap,IVF{count},PQ{h}x4fs,RFlat" if h in COARSE else f"IVF{count},Flat")
    inner = faiss.extract_index_ivf(lists)
    inner.cp.niter, inner.cp.min_points_per_centroid, inner.cp.max_points_per_centroid = 10, 1, 64
    if h in COARSE:
        faiss.downcast_index(lists.index).k_factor = CANDIDATES
        faiss.downcast_index(inner).pq.cp.min_points_per_centroid = 1  # else it would warn of small archives
    return lists


def _choose_breadth(lists: Any, numbers: Numbers, short: NDArray[np.float32], trials: NDArray[np.int64]) -> None:
    """Look at as many lists as find the ten nearest others of these points."""
    inner, queries, k = _faiss().extract_index_ivf(lists), short[trials], min(11, len(short))  # it finds itself as well
    truth = numbers[_faiss().knn(queries, short, k)[1]]
    probes = max(1, inner.nlist // 64)
    while probes < inner.nlist and k > 1:
        inner.nprobe = probes
        found = lists.search(queries, k + SPARE)[1][:, :k]
        hits = sum(len(np.intersect1d(one, two)) - 1 for one, two in zip(found, truth, strict=True))
        if hits >= WANTED_RECALL * (truth.size - len(truth)):
            return
        probes = min(inner.nlist, int(probes * 1.25) + 1)
    inner.nprobe = inner.nlist


def most_alike(query: NDArray[np.float32], rows: NDArray[np.float32], k: int, slack: float) -> NDArray[np.int64] | None:
    """Which k rows have the largest products with a query, and all others within the slack of the last of them.

    None when that may be more than were asked for.
    """
    faiss = _faiss()
    products, found = faiss.knn(query[None], rows, min(k + SPARE, len(rows)), metric=faiss.METRIC_INNER_PRODUCT)
    near = products[0] >= products[0][k - 1] - slack
    return None if near.all() else found[0][near]


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
