"""Long runs in short: indexing, querying, serving and measuring again and again leave nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.soak import MOST_FILES, Growth, Reading, main, started

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read where Linux shows it")

CYCLES, EVERY = 40, 2


def test_memory_files_and_threads_do_not_grow() -> None:
    readings = []
    with started() as soak:
        for number in range(CYCLES):
            soak.cycle()
            if number % EVERY == EVERY - 1:
                readings.append(Reading.taken(number, soak.cases, soak.queries))
    assert soak.queries == 16 * CYCLES
    assert not Growth.of(readings).complaint(), readings


def test_what_grows_is_found(tmp_path: Path) -> None:
    """The judge itself: files that stay open and memory that stays held are seen, wavering is not."""
    leaked, readings = [], []
    for number in range(12):
        leaked.append((tmp_path / "file").open("wb"))
        readings.append(Reading.taken(number, 0, 0))
    for file in leaked:
        file.close()
    assert "open files grew" in Growth.of(readings).complaint()
    rising = [Reading(i, 500 + 4.0 * i, 20, 5, 0, 0) for i in range(20)]
    assert "memory grew by 52.0 MB" in Growth.of(rising).complaint()
    wavering = [Reading(i, 500 + 30.0 * (i % 2), 20 + i % MOST_FILES, 5, 0, 0) for i in range(20)]
    assert not Growth.of(wavering).complaint()


def test_the_long_run_prints_a_table_and_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--minutes", "0.02", "--every", "0.4"])
    said = capsys.readouterr().out
    assert said.startswith("minutes  memory MB")
    assert "after the warm-up" in said
    assert status in (0, 1), "so short a run is all warm-up"


def test_nothing_is_left_in_the_temporary_folder() -> None:
    with started() as soak:
        folder = soak.path.parent
        soak.cycle()
        assert folder.exists()
    assert not folder.exists()
    assert str(folder) not in "".join(os.readlink(link) for link in _links())


def _links() -> list[str]:
    here = Path("/proc/self/fd")
    return [str(link) for link in here.iterdir() if link.is_symlink() and os.path.lexists(link)]
