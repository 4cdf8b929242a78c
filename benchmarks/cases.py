"""A case, and the rows that come out of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.differences import Difference
from benchmarks.measure import WARM_UP, Reading, Work, Workshop

OURS = "clearfold"


@dataclass(frozen=True)
class Against:
    """One comparison: two works of a case, how their outputs may differ, and the ratio that is wanted (if any).

    wanted : peer's seconds / ours, at least; wanted_memory : ours / peer's memory, at most
    limit_s : seconds that ours may take
    task : what distinguishes this comparison inside its case, for instance "1 query"
    """

    peer: str
    differences: tuple[Difference, ...]
    wanted: float | None = None
    wanted_memory: float | None = None
    limit_s: float | None = None
    ours: str = OURS
    task: str = ""
    peer_name: str = ""


@dataclass(frozen=True)
class Case:
    """Work on data of one size, ours and the peers'.

    prepare : for each process, size -> the state that its works are given
    works : by name; comparisons : which of them are set side by side; without any, ours stands alone
    memory_limit : bytes that ours may need
    warm_up : size of the data on which everything is done once before it is measured, if that is the smaller one
    on_the_clock : wall seconds are told, for work that is spread over several processes
    axis : what the size counts: "samples", "features", "nuclei" or "cases"; growth is drawn along it
    """

    name: str
    data: str
    size: int
    prepare: dict[str, Callable[[int], Any]]
    works: dict[str, Work]
    comparisons: tuple[Against, ...] = ()
    memory_limit: float | None = None
    warm_up: int = WARM_UP
    on_the_clock: bool = False
    axis: str = "samples"


@dataclass(frozen=True)
class Row:
    """One comparison, measured: seconds of CPU, megabytes above the baseline, differences with their tolerances."""

    case: str
    data: str
    n: int
    task: str
    peer: str
    ours_cpu: float
    ours_wall: float
    ours_mb: float
    peer_cpu: float | None = None
    peer_mb: float | None = None
    wanted: float | None = None
    wanted_memory: float | None = None
    limit_mb: float | None = None
    limit_s: float | None = None
    differences: dict[str, tuple[float, float]] = field(default_factory=dict)
    on_the_clock: bool = False
    axis: str = "samples"
    error: str = ""
    peer_error: str = ""

    @property
    def ratio(self) -> float | None:
        """Peer / ours: above 1 we are faster."""
        return None if self.peer_cpu is None else self.peer_cpu / self.ours_cpu

    @property
    def same(self) -> bool:
        """Whether every difference keeps its tolerance; NaN does not, nor does a comparison that could not be made."""
        failed = self.error or self.peer_error
        return not failed and all(value <= tolerance for value, tolerance in self.differences.values())

    @property
    def fast(self) -> bool | None:
        """Whether the ratio that is wanted was reached, within the seconds that are allowed; None where none are."""
        told = [self.ratio >= self.wanted] if self.wanted is not None and self.ratio is not None else []
        told += [self.ours_cpu <= self.limit_s] if self.limit_s is not None and not self.error else []
        return all(told) if told else None

    @property
    def small(self) -> bool | None:
        """Whether memory stayed in its limits; None where there is none."""
        if self.limit_mb is not None:
            return self.ours_mb <= self.limit_mb
        if self.wanted_memory is None or self.peer_mb is None:
            return None
        return self.ours_mb <= self.wanted_memory * self.peer_mb


def measured(case: Case, workshop: Workshop) -> list[Row]:
    """Run a case; one row for each comparison."""
    readings, outputs = workshop.measure(case.prepare, case.works, case.size, case.warm_up)
    if not case.comparisons:
        return [_row(case, readings[OURS], limit_mb=case.memory_limit and case.memory_limit / 2**20)]
    rows = []
    for pair in case.comparisons:
        ours, peer = readings[pair.ours], readings[pair.peer]
        compared = {} if ours.error or peer.error else _compared(pair, outputs[pair.ours], outputs[pair.peer])
        rows.append(
            _row(
                case,
                ours,
                task=pair.task,
                peer=pair.peer_name or pair.peer,
                peer_cpu=None if peer.error else peer.cpu,
                peer_mb=None if peer.error else peer.memory / 2**20,
                wanted=pair.wanted,
                wanted_memory=pair.wanted_memory,
                limit_s=pair.limit_s,
                differences=compared,
                peer_error=peer.error,
            )
        )
    return rows


def _row(case: Case, ours: Reading, task: str = "", peer: str = "", **rest: Any) -> Row:
    return Row(
        case.name,
        case.data,
        case.size,
        task,
        peer,
        ours.cpu,
        ours.wall,
        ours.memory / 2**20,
        on_the_clock=case.on_the_clock,
        axis=case.axis,
        error=ours.error,
        **rest,
    )


def _compared(pair: Against, ours: Any, peer: Any) -> dict[str, tuple[float, float]]:
    return {kind.name: (kind.between(ours, peer), kind.tolerance) for kind in pair.differences}
