"""Measures of retrieval: the numbers of an independent implementation, and what must be true of any."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import average_precision_score, silhouette_score

from clearfold import evaluate
from clearfold.embedding import PCA
from clearfold.embedding.precision import rank
from clearfold.errors import InputError


@pytest.fixture
def numbers(vectors: Path) -> dict[str, np.ndarray]:
    return dict(np.load(vectors / "graph" / "ose_ssl.npz"))


def cloud(n: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates, three unequal classes that separate a little, and patients of three samples each."""
    random = np.random.default_rng(seed)
    labels = np.sort(random.integers(0, 3, n // 3)).repeat(3)
    return random.normal(size=(n, 4)) + 0.6 * labels[:, None], labels, np.arange(n) // 3


@pytest.mark.parametrize("name", ["nmge", "osessl"])
def test_every_query_has_the_expected_area(numbers: dict[str, np.ndarray], name: str) -> None:
    Y, labels = numbers[f"{name}_full"], numbers["labels"]
    area = evaluate.retrieval(Y, labels, groups="each")
    np.testing.assert_allclose(area.queries, numbers[f"{name}_auprc_trapz_q"], rtol=1e-12)
    assert area["micro"] == pytest.approx(numbers[f"{name}_auprc_trapz"], rel=1e-12)
    assert evaluate.auprc(Y, labels) == pytest.approx(numbers[f"{name}_auprc_trapz"], rel=1e-12)
    average = evaluate.retrieval(Y, labels, groups="each", measure="average_precision")
    np.testing.assert_allclose(average.queries, numbers[f"{name}_auprc_ap_q"], rtol=1e-12)
    assert average["micro"] == pytest.approx(numbers[f"{name}_auprc_ap"], rel=1e-12)


@pytest.mark.parametrize("name", ["nmge", "osessl"])
def test_queries_outside_ask_the_training_samples(numbers: dict[str, np.ndarray], name: str) -> None:
    rows = {"queries": numbers["E"], "database": numbers["T"]}
    found = evaluate.retrieval(numbers[f"{name}_full"], numbers["labels"], groups="each", **rows)
    np.testing.assert_allclose(found.queries, numbers[f"{name}_auprc_oosq"], rtol=1e-12)
    masks = {key: np.isin(np.arange(60), value) for key, value in rows.items()}
    again = evaluate.retrieval(numbers[f"{name}_full"], numbers["labels"], groups="each", **masks)
    assert again["micro"] == pytest.approx(numbers[f"{name}_auprc_oosq_mean"], rel=1e-12)


@pytest.mark.parametrize("name", ["nmge", "osessl"])
def test_silhouette(numbers: dict[str, np.ndarray], name: str) -> None:
    Y, labels = numbers[f"{name}_full"], numbers["labels"]
    assert evaluate.silhouette(Y, labels) == pytest.approx(numbers[f"{name}_SI_std"], rel=1e-12)
    assert evaluate.retrieval(Y, labels, groups="each")["silhouette"] == pytest.approx(numbers[f"{name}_SI_std"])
    assert evaluate.silhouette(cdist(Y, Y), labels, metric="precomputed") == pytest.approx(silhouette_score(Y, labels))


def test_average_precision_is_that_of_scikit_learn() -> None:
    coordinates, labels, _ = cloud()
    found = evaluate.retrieval(coordinates, labels, groups="each", measure="average_precision").queries
    for query in range(0, len(labels), 7):
        others = np.arange(len(labels)) != query
        nearness = -cdist(coordinates[[query]], coordinates[others])[0]
        expected = average_precision_score(labels[others] == labels[query], nearness)
        assert found[query] == pytest.approx(expected, rel=1e-12)


# --- chance, means, spread


@pytest.mark.parametrize("measure", ["area", "average_precision"])
def test_chance_is_the_mean_over_random_orders(measure: str) -> None:
    random = np.random.default_rng(0)
    relevant = np.zeros((4000, 12), dtype=bool)
    relevant[:, :4] = True
    ranking = rank(random.random((4000, 12)), relevant, np.ones((4000, 12), dtype=bool))
    drawn = ranking.area() if measure == "area" else ranking.average_precision()
    assert drawn.mean() == pytest.approx(ranking.chance(measure)[0], abs=4 * drawn.std() / np.sqrt(4000))


def test_random_coordinates_are_at_chance_also_with_patients() -> None:
    random = np.random.default_rng(0)
    patients = np.repeat(np.arange(60), 5)
    labels = random.permutation(np.arange(60) % 3)[patients]
    found = evaluate.retrieval(random.normal(size=(300, 3)), labels, groups=patients)
    assert found["macro"] == pytest.approx(found["chance_macro"], abs=0.01)
    assert found["chance_macro"] < 1 / 3  # below prevalence: the query's own patient is not among the candidates


def test_images_of_one_patient_find_each_other_without_any_signal() -> None:
    random = np.random.default_rng(0)
    patients = np.repeat(np.arange(40), 6)
    labels = random.permutation(np.arange(40) % 2)[patients]
    coordinates = 5 * random.normal(size=(40, 6))[patients] + random.normal(size=(240, 6))
    assert evaluate.precision_at(coordinates, labels, 5, groups="each") > 0.9
    assert evaluate.precision_at(coordinates, labels, 5, groups=patients) == pytest.approx(0.48, abs=0.08)


def test_macro_is_the_mean_over_classes_and_micro_over_queries() -> None:
    coordinates, labels, patients = cloud()
    found = evaluate.retrieval(coordinates, labels, groups=patients)
    means = [found.queries[labels == c].mean() for c in range(3)]
    assert found["macro"] == pytest.approx(np.mean(means))
    assert found["micro"] == pytest.approx(found.queries.mean())
    np.testing.assert_allclose(found.classes["value"], means)


def test_interval_is_drawn_over_patients() -> None:
    """Copies of a patient's row add nothing: the interval is as wide as without them."""
    coordinates, labels, _ = cloud()
    alone = evaluate.retrieval(coordinates, labels, groups="each", n_bootstrap=2000)
    copies = np.repeat(np.arange(90), 4)
    copied = evaluate.retrieval(coordinates[copies], labels[copies], groups=copies, n_bootstrap=2000)
    width = alone["micro_high"] - alone["micro_low"]
    assert copied["micro_high"] - copied["micro_low"] == pytest.approx(width, rel=0.15)
    blind = evaluate.retrieval(coordinates[copies], labels[copies], groups="each", n_bootstrap=2000)
    assert blind["micro_high"] - blind["micro_low"] < 0.7 * width


def test_parts_are_reported_apart() -> None:
    coordinates, labels, patients = cloud()
    parts = np.where(np.arange(90) % 3 == 0, "out of sample", "unlabelled")
    found = evaluate.retrieval(coordinates, labels, groups=patients, parts=parts)
    assert set(found.table.index) == {"all", "unlabelled", "out of sample"}
    for name in ("unlabelled", "out of sample"):
        assert found.table["micro"][name] == pytest.approx(found.queries[parts == name].mean())
        assert found.table["queries"][name] == (parts == name).sum()
    assert "out of sample" in str(found)
    assert "chance" in str(found)


def test_curve_runs_from_the_first_hit_to_prevalence() -> None:
    coordinates, labels, _ = cloud()
    found = evaluate.retrieval(coordinates, labels, groups="each")
    curve = found.curve
    assert found.plot().get_xlabel() == "recall"
    assert curve["precision"].iloc[0] == pytest.approx(found["precision_at_1"])
    assert (curve["low"] <= curve["precision"] + 1e-12).all()
    assert (curve["high"] >= curve["precision"] - 1e-12).all()
    assert np.trapezoid(curve["precision"], curve["recall"]) == pytest.approx(found["micro"], abs=0.02)


def test_perfect_retrieval_is_one_and_the_worst_is_low() -> None:
    labels = np.repeat([0, 1], 20)
    apart = labels[:, None] + 1e-3 * np.random.default_rng(0).normal(size=(40, 1))
    found = evaluate.retrieval(apart, labels, groups="each")
    assert found["micro"] == found["macro"] == found["precision_at_10"] == 1.0
    opposite = 1.0 - np.equal.outer(labels, labels) + 0.0
    worst = evaluate.retrieval(1.0 - opposite, labels, groups="each", metric="precomputed")
    assert worst["micro"] < found["chance_micro"]


# --- ties, row order, undefined queries


def test_samples_at_equal_distance_share_their_rank() -> None:
    """When nothing tells samples apart, retrieval is at prevalence in whatever order the rows are stored."""
    labels = np.repeat([0, 1], [30, 10])
    for order in (np.arange(40), np.random.default_rng(0).permutation(40)):
        found = evaluate.retrieval(np.zeros((40, 2)), labels[order], groups="each")
        expected = np.where(labels[order] == 0, 29 / 39, 9 / 39)
        np.testing.assert_allclose(found.queries, expected, rtol=1e-12)


def test_row_order_and_rotation_do_not_matter() -> None:
    coordinates, labels, patients = cloud()
    coordinates = np.round(coordinates)  # many ties
    order = np.random.default_rng(0).permutation(90)
    one = evaluate.retrieval(coordinates, labels, groups=patients).queries
    two = evaluate.retrieval(coordinates[order], labels[order], groups=patients[order]).queries
    np.testing.assert_allclose(two, one[order], rtol=1e-12)


def test_cosine_ranks_by_direction() -> None:
    coordinates, labels, _ = cloud()
    unit = coordinates / np.linalg.norm(coordinates, axis=1, keepdims=True)
    stretched = coordinates * np.random.default_rng(0).uniform(0.1, 9, size=(90, 1))
    one = evaluate.retrieval(unit, labels, groups="each").queries
    two = evaluate.retrieval(stretched, labels, groups="each", metric="cosine").queries
    np.testing.assert_allclose(two, one, rtol=1e-9)


def test_queries_without_a_relevant_sample_are_counted() -> None:
    coordinates, labels, patients = cloud()
    labels = labels.copy()
    labels[:3] = 9  # all of one patient
    found = evaluate.retrieval(coordinates, labels, groups=patients)
    assert found["undefined"] == 3
    assert found["queries"] == 90
    assert np.isnan(found.queries[:3]).all()
    assert not np.isnan(found.queries[3:]).any()
    assert "3 without a relevant sample" in str(found)
    assert found.classes.set_index("label")["undefined"][9] == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "no groups came"),
        ({"groups": "patient"}, "'each', is wanted"),
        ({"groups": np.arange(5)}, "groups of shape"),
        ({"groups": "each", "metric": "manhattan"}, "metric="),
        ({"groups": "each", "measure": "f1"}, "measure="),
        ({"groups": "each", "queries": np.zeros(90, dtype=bool)}, "no sample is among the queries"),
        ({"groups": np.zeros(90)}, "no query has a relevant sample"),
    ],
)
def test_what_cannot_be_judged_is_refused(change: dict[str, object], words: str) -> None:
    coordinates, labels, _ = cloud()
    with pytest.raises(InputError, match=words):
        evaluate.retrieval(coordinates, labels, **change)


def test_bad_tables_are_refused() -> None:
    coordinates, labels, _ = cloud()
    with pytest.raises(InputError, match="not negative"):
        evaluate.retrieval(-cdist(coordinates, coordinates), labels, groups="each", metric="precomputed")
    with pytest.raises(InputError, match="square"):
        evaluate.auprc(coordinates, labels, metric="precomputed")
    with pytest.raises(InputError, match="labels of shape"):
        evaluate.auprc(coordinates, labels[:5])
    with pytest.raises(InputError, match="missing for 1"):
        evaluate.auprc(coordinates, np.where(np.arange(90) == 4, np.nan, labels))
    with pytest.raises(InputError, match="no query has a relevant sample"):
        evaluate.auprc(coordinates, np.arange(90))
    with pytest.raises(InputError, match="finite"):
        evaluate.auprc(coordinates * np.nan, labels)
    with pytest.raises(InputError, match="1 classes came"):
        evaluate.silhouette(coordinates, np.zeros(90))


# --- every method on the same halves


def test_comparison_shows_every_method_beside_chance() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    found = evaluate.compare(X[::2], y[::2], groups="each", n_splits=2, more={"components": PCA(n_components=5)})
    assert {"belief", "discriminant", "forest proximity", "forest posterior", "BoSE", "SSGE"} <= set(
        found.table["method"]
    )
    assert found.mean("belief") > found.mean("plain distances")
    assert found.mean("components") > found.mean("components", "chance") + 0.1
    assert found.mean("random labels") == pytest.approx(found.mean("random labels", "chance"), abs=0.03)
    assert found.mean("archive labels", "archive") < found.mean("belief", "archive")
    assert "best_in" in str(found)
    assert evaluate.compare(X[::2], y[::2], groups="each", n_splits=1).mean("belief") == pytest.approx(
        found.table[(found.table["method"] == "belief") & (found.table["split"] == 0)]["held_out"].iloc[0]
    )


def test_comparison_keeps_patients_together() -> None:
    patients = np.repeat(np.arange(30), 3)
    labels = (np.arange(30) % 3)[patients]
    mask = evaluate.half(labels, patients, np.random.default_rng(0))
    assert all(len(set(mask[patients == p])) == 1 for p in range(30))
    with pytest.raises(InputError, match="no groups came"):
        evaluate.compare(np.zeros((90, 2)), labels)
    with pytest.raises(InputError, match="one patient"):
        evaluate.half(labels, labels, np.random.default_rng(0))
