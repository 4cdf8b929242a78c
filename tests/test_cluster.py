"""Work on a cluster gives what one machine gives, also when a worker is killed on the way."""

import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from joblib import delayed
from PIL import Image
from typer.testing import CliRunner

from clearfold.archive.measuring import Measuring
from clearfold.archive.measuring import measure_all as measure_images
from clearfold.cli import app
from clearfold.cluster import connected, connection, on_cluster, parallel, width
from clearfold.datasets import synthetic_tissue
from clearfold.embedding import PCA, Isomap
from clearfold.embedding.placing import Placing, place_table
from clearfold.errors import InputError, MissingExtraError
from clearfold.evaluate.archives import evaluate_cases
from clearfold.features.files import Recipe, Task, measure_all
from clearfold.papers.claims import Figure
from clearfold.papers.pieces import Findings, Piece
from clearfold.papers.reproduction import carried_out
from clearfold.survival import risk_groups
from clearfold.table.stream import open_stream

distributed = pytest.importorskip("distributed")


class Machines:
    """A scheduler and two workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "scheduler.json"
        self.all: list[subprocess.Popen[bytes]] = []
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(self.file)]
        self._start("scheduler", *options, "--idle-timeout", "600s")  # nothing stays when the tests are killed
        for name in ("anna", "berta"):
            self.worker(name)
        self.address = self._until(lambda: self.file.exists() and json.loads(self.file.read_text())["address"])

    def worker(self, name: str) -> None:
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", name, "--death-timeout", "60"]
        self._start("worker", "--scheduler-file", str(self.file), *options, "--local-directory", str(self.folder))

    def _start(self, *words: str) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with (self.folder / f"{len(self.all)}.log").open("wb") as log:
            command = [sys.executable, "-m", "dask", *words]
            self.all.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self.folder))

    def _until(self, ready: Any) -> Any:
        for _ in range(1200):
            if found := ready():
                return found
            assert all(one.poll() is None for one in self.all), (self.folder / "0.log").read_text()
            time.sleep(0.05)
        raise AssertionError("the cluster did not start")

    def stop(self) -> None:
        for one in reversed(self.all):
            one.kill()
            one.wait()


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    machines = Machines(tmp_path_factory.mktemp("cluster"))
    try:
        with distributed.Client(machines.address, set_as_default=False, timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
        yield machines
    finally:
        machines.stop()


@pytest.fixture
def cases() -> pd.DataFrame:
    random = np.random.default_rng(0)
    label = np.arange(90) % 3
    X = random.normal(size=(90, 40)) + 0.4 * label[:, None]
    about = {"patient_id": [f"p{row // 2}" for row in range(90)], "label": np.array(["a", "b", "c"])[label]}
    return pd.concat([pd.DataFrame(about), pd.DataFrame(X, columns=[f"shape.f{i}" for i in range(40)])], axis=1)


# Calls -----------------------------------------------------------------------------------------------------


def test_a_large_array_is_sent_once_and_forgotten_with_its_owner(machines: Machines) -> None:
    def add(X: Any, held: dict[str, Any], number: int) -> tuple[float, bool, bool]:
        return float(X[number].sum()), X.flags.writeable, held["again"] is X

    X = np.random.default_rng(0).random((40, 5000))
    with on_cluster(machines.address) as cluster:
        assert cluster is not None
        found = parallel()(delayed(add)(X, {"again": X}, number) for number in range(40))
        assert found == [(float(row.sum()), False, True) for row in X]
        assert len(cluster.sent) == 1
        del X
        gc.collect()
        assert not cluster.sent


def test_results_keep_their_order_and_small_calls_are_put_together(machines: Machines) -> None:
    def where(number: int) -> tuple[int, int]:
        return number, os.getpid()

    with on_cluster(machines.address):
        assert connected()
        assert width() == 2
        run = parallel(return_as="generator")
        numbers, owners = zip(*run(delayed(where)(number) for number in range(500)), strict=True)
        assert numbers == tuple(range(500))
        assert len(set(owners)) == 2
        assert os.getpid() not in owners
        assert run.n_dispatched_batches < 250
    assert not connected()


def test_a_worker_computes_with_one_thread_and_the_settings_of_the_caller(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inside() -> tuple[int, set[int], str | None]:
        from threadpoolctl import threadpool_info

        np.ones((2, 2)) @ np.ones((2, 2))
        threads = {one["num_threads"] for one in threadpool_info()}
        return joblib.effective_n_jobs(4), threads, os.environ.get("CLEARFOLD_NUMBA")

    monkeypatch.setenv("CLEARFOLD_NUMBA", "0")
    with on_cluster(machines.address):
        assert parallel()([delayed(inside)()]) == [(1, {1}, "0")]


def test_an_error_arrives_as_it_was_raised_and_ends_nothing_else(machines: Machines) -> None:
    def fail(number: int) -> int:
        if number == 7:
            raise InputError("seven came.")
        return number

    with on_cluster(machines.address):
        with pytest.raises(InputError, match=r"^seven came\.$"):
            parallel()(delayed(fail)(number) for number in range(50))
        with pytest.raises(TypeError, match="pickle"):
            parallel()(delayed(fail)(threading.Lock()) for _ in range(3))
        assert parallel()(delayed(fail)(number) for number in range(3)) == [0, 1, 2]


# Clusters that cannot be used ------------------------------------------------------------------------------


@contextmanager
def mute() -> Iterator[int]:
    """Somebody who answers the telephone and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("address", ["host:8786", "tcp://", "tcp://host", "http://host:8786", "tcp://host:x"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InputError, match=r"wanted is an address such as tcp://host:8786"), on_cluster(address):
        pass


def test_where_no_scheduler_is_the_command_says_so(cases: pd.DataFrame, tmp_path: Path) -> None:
    with mute() as port:
        pass
    cases.to_csv(tmp_path / "cases.csv", index=False)
    options = ["-o", str(tmp_path / "report.html"), "--scheduler", f"tcp://127.0.0.1:{port}"]
    done = CliRunner().invoke(app, ["rank", str(tmp_path / "cases.csv"), *options])
    assert done.exit_code == 2
    assert f"No Dask scheduler answers at tcp://127.0.0.1:{port}" in done.stderr.replace("\n", " ")
    assert not (tmp_path / "report.html").exists()


def test_what_is_no_scheduler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WAIT_S", 1)
    with mute() as port, pytest.raises(InputError, match="No Dask scheduler answers"):
        on_cluster(f"tcp://127.0.0.1:{port}").__enter__()


def facts(**versions: str | None) -> dict[str, Any]:
    same = {"python": "3.11.2.final.0", "clearfold": "1.0", "numpy": "2.0", "scipy": "1.15", "sklearn": "1.6"}
    return {"packages": same | versions}


@pytest.mark.parametrize(
    ("scheduler", "worker", "said"),
    [
        ({}, {"clearfold": "0.9"}, r"worker tcp://w has clearfold 0.9; here is clearfold 1.0"),
        ({}, {"clearfold": None, "sklearn": "1.7"}, r"clearfold missing, sklearn 1.7; here is clearfold 1.0, sklearn"),
        ({"python": "3.12.0.final.0"}, {}, r"scheduler has python 3.12; here is python 3.11"),
    ],
)
def test_other_versions_are_refused(scheduler: dict[str, str], worker: dict[str, str], said: str) -> None:
    found = {"client": facts(), "scheduler": facts(**scheduler), "workers": {"tcp://w": facts(**worker)}}
    client = SimpleNamespace(wait_for_workers=lambda n, timeout: None, get_versions=lambda packages: found)
    with pytest.raises(InputError, match=said):
        connection._check(client, "tcp://here")


def test_a_cluster_without_workers_is_refused() -> None:
    def nobody(n: int, timeout: float) -> None:
        raise TimeoutError

    with pytest.raises(InputError, match=r"has no workers\. Start some with: dask worker tcp://here"):
        connection._check(SimpleNamespace(wait_for_workers=nobody), "tcp://here")


def test_without_the_extra_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"clearfold\[cluster\]"), on_cluster("tcp://host:8786"):
        pass


# The same numbers ------------------------------------------------------------------------------------------


def test_images_are_measured_alike(machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "images").mkdir()
    for number in range(2):
        tissue = synthetic_tissue("low", size=128, seed=number)
        Image.fromarray(tissue.image).save(tmp_path / "images" / f"{number}.png")
    monkeypatch.chdir(tmp_path)  # names are relative, and workers are elsewhere
    words = ["extract", "images", "--mpp", "0.5", "--family", "stain", "--family", "density"]
    for more in (["-o", "here.csv"], ["-o", "there.csv", "--scheduler", machines.address]):
        done = CliRunner().invoke(app, [*words, *more])
        assert done.exit_code == 0, done.stderr
    assert Path("here.csv").read_bytes() == Path("there.csv").read_bytes()
    assert len(pd.read_csv("there.csv")) == 2


def test_images_go_into_an_archive_alike(machines: Machines, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(2)]
    for number, path in enumerate(paths):
        Image.fromarray(synthetic_tissue("low", size=128, seed=number).image).save(path)
    paths += [tmp_path / "gone.png"]
    measuring = Measuring(None, 0.5, {"families": ["stain"]})
    here = list(measure_images(measuring, paths))
    with on_cluster(machines.address):
        there = list(measure_images(measuring, paths))
    for one, other in zip(here[:2], there[:2], strict=True):
        assert (one.names, one.thumbnail, one.content) == (other.names, other.thumbnail, other.content)
        np.testing.assert_array_equal(one.values, other.values)
    assert re.search(rf"the worker (anna|berta) on .* does not see {paths[2]}", there[2].reason)
    assert "worker" not in here[2].reason


def test_pieces_of_a_reproduction_are_carried_out_alike(machines: Machines, tmp_path: Path) -> None:
    def work(seed: int) -> Findings:
        return Findings({"corrected": {"mean": Figure(float(np.random.default_rng(seed).random(50).mean()), 0, 1, 50)}})

    pieces = [Piece(f"piece{seed}", "rve", work, {"seed": seed}, "none") for seed in range(4)]
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here, _ = carried_out(pieces, tmp_path / "here", 1, None)
    with on_cluster(machines.address):
        there, _ = carried_out(pieces, tmp_path / "there", 1, None)
        with pytest.raises(InputError, match="does not see"):
            carried_out(pieces, tmp_path / "gone", 1, None)
    assert [one.findings for one in here] == [one.findings for one in there]
    assert {path.name for path in (tmp_path / "there").iterdir()} == {f"piece{seed}.json" for seed in range(4)}


def test_a_file_that_a_worker_does_not_see_is_said_with_its_name(machines: Machines, tmp_path: Path) -> None:
    gone = tmp_path / "gone.png"
    with on_cluster(machines.address):
        (done,) = measure_all([Task(gone)], Recipe())
    assert done.rows is None
    assert done.task.path == gone
    assert f"does not see {gone}" in done.reason
    assert "worker anna on" in done.reason or "worker berta on" in done.reason


def test_folds_and_permutations_are_judged_alike(machines: Machines, cases: pd.DataFrame) -> None:
    X = cases.drop(columns=["patient_id", "label"]).iloc[:, :6]
    time_, event = np.random.default_rng(0).exponential(size=90), np.arange(90) % 2

    def judged() -> tuple[Any, Any]:
        folds = evaluate_cases(PCA(n_components=2), X, cases["label"], cases["patient_id"], n_folds=2, n_bootstrap=9)
        return folds, risk_groups(X, time_, event, n_folds=2, n_permutations=6, n_bootstrap=9)

    here = judged()
    with on_cluster(machines.address):
        there = judged()
    for name in ("table", "classes", "confusion"):
        pd.testing.assert_frame_equal(getattr(here[0], name), getattr(there[0], name), check_exact=True)
    assert (here[1].log_rank_p, here[1].inflation) == (there[1].log_rank_p, there[1].inflation)


def test_rows_are_placed_alike(machines: Machines, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(1500, 6))
    pd.DataFrame(X, columns=[f"shape.f{i}" for i in range(6)]).to_parquet(tmp_path / "rows.parquet")
    stream, placing = open_stream(tmp_path / "rows.parquet"), Placing(Isomap(), n_landmarks=100, chunk_rows=200)
    place_table(stream, tmp_path / "here.parquet", placing)
    with on_cluster(machines.address):
        place_table(stream, tmp_path / "there.parquet", placing)
    here, there = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("here", "there"))
    pd.testing.assert_frame_equal(here, there, check_exact=True)


def kill_a_busy_worker(address: str, killed: list[str]) -> None:
    """Kill the first worker that is seen at work."""
    with distributed.Client(address, set_as_default=False, timeout=60) as client:
        processes = client.run(os.getpid)
        for _ in range(6000):
            busy = [at for at, keys in client.processing().items() if any("clearfold" in str(key) for key in keys)]
            if busy:
                os.kill(processes[busy[0]], signal.SIGKILL)
                killed += busy[:1]
                return
            time.sleep(0.01)


def test_a_killed_worker_changes_no_figure_of_a_ranking(
    machines: Machines, cases: pd.DataFrame, tmp_path: Path
) -> None:
    cases.to_csv(tmp_path / "cases.csv", index=False)
    words = ["rank", str(tmp_path / "cases.csv"), "--rounds", "40", "--permutations", "10"]
    words += ["--importance", "coherent", "--components", "3", "--top", "5"]
    killed: list[str] = []
    killer = threading.Thread(target=kill_a_busy_worker, args=(machines.address, killed))
    for name, more in (("here", []), ("there", ["--scheduler", machines.address])):
        if more:
            killer.start()
        files = ["-o", str(tmp_path / f"{name}.html"), "--table", str(tmp_path / f"{name}.csv")]
        done = CliRunner().invoke(app, [*words, *files, *more])
        assert done.exit_code == 0, done.stderr
    killer.join()
    with distributed.Client(machines.address, set_as_default=False, timeout=60) as client:
        gone = [event for _, event in client.get_events("all") if event["action"] == "remove-worker"]
        assert [event["worker"] for event in gone] == killed
        assert gone[0]["processing-tasks"] or gone[0]["lost-computed-tasks"]  # it was in the middle of the work
        assert len(client.ncores()) == 1
    assert (tmp_path / "here.csv").read_bytes() == (tmp_path / "there.csv").read_bytes()
