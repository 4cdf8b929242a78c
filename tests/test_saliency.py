"""Local saliency finds what is true, refuses what is chance, and keeps what it promises about new samples."""

import itertools
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from clearfold.cli import app
from clearfold.papers import rve
from clearfold.saliency import (
    FewDistinctCellsWarning,
    GradedPossibilisticClustering,
    NothingAboveNullWarning,
    VoronoiSaliency,
)
from clearfold.saliency.evidence import difference, left_out_errors
from clearfold.saliency.placement import compact, labelled_space, two_means
from clearfold.table import write_table
from saliency_truth import KINDS, passes, samples

QUICK = {"n_perturbations": 10, "n_bootstraps": 0, "n_permutations": 0}
SEEDS = range(7000, 7020)
"""Not those that the method was designed on."""


@pytest.fixture(scope="module")
def switch() -> tuple[VoronoiSaliency, pd.DataFrame, np.ndarray]:
    X, y, side = samples("switch", 77)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(10)])
    fitted = VoronoiSaliency(n_perturbations=20, n_bootstraps=20, random_state=0).fit(frame, np.where(y > 0, "b", "a"))
    return fitted, frame, side


# What is true is found ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("standardize", [True, False], ids=["standardised", "raw"])
@pytest.mark.parametrize("kind", KINDS)
def test_known_truth_on_fresh_seeds(kind: str, standardize: bool) -> None:
    passed, count = 0, []
    for seed in SEEDS:
        X, y, side = samples(kind, seed)
        fitted = VoronoiSaliency(standardize=standardize, random_state=seed, **QUICK).fit(X, y)
        passed += passes(fitted, side, kind)
        count.append(len(fitted.rankings_))
    assert passed >= 18
    assert np.mean(count) <= (1.5 if kind == "global" else 2.5)


def test_a_global_machine_misses_what_flips() -> None:
    X, y, _ = samples("flip", 7100)
    fitted = VoronoiSaliency(random_state=0, **QUICK).fit(X, y)
    first = fitted.comparison_.query("local == 1")
    assert set(first["feature"]) == {"x1"}
    assert np.sign(first["saliency"]).sum() == 0
    assert (first["t_test"] > 1).all()


def test_a_class_between_two_others_has_two_regions() -> None:
    data = load_iris(as_frame=True)
    fitted = VoronoiSaliency(random_state=0, **QUICK).fit(data.data, data.target_names[data.target])
    between = fitted.regions_.query("label == 'versicolor'")["region"]
    assert len(between) == 2
    signs = fitted.region_saliency_[between, data.feature_names.index("petal length (cm)")]
    assert signs.prod() < 0
    np.testing.assert_allclose(fitted.memberships_.sum(axis=1), 3)
    assert fitted.saliency(data.data).shape == data.data.shape
    label = fitted.regions_["label"].to_numpy()
    assert set(label[fitted.predict_region(data.data, label="versicolor")]) == {"versicolor"}


# What is chance is refused --------------------------------------------------------------------------------------


def test_permuted_labels_are_not_ranked() -> None:
    ranked = 0
    for seed in SEEDS:
        X, y, _ = samples("flip", seed)
        y = np.random.default_rng(seed).permutation(y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingAboveNullWarning)
            fitted = VoronoiSaliency(n_perturbations=10, n_bootstraps=0, random_state=seed).fit(X, y)
        ranked += bool(fitted.rankings_)
    assert ranked <= 1


def test_a_refusal_says_so_and_shows_nothing() -> None:
    X, y, _ = samples("global", 7200)
    y = np.random.default_rng(0).permutation(y)
    with pytest.warns(NothingAboveNullWarning, match="Nothing is ranked"):
        fitted = VoronoiSaliency(n_perturbations=5, n_bootstraps=0, random_state=0).fit(X, y)
    assert fitted.rankings_ == []
    assert not fitted.regions_["above_null"].any()
    assert (fitted.saliency(X[:3]) == 0).all()
    assert isinstance(fitted.plot(), Figure)


@pytest.mark.filterwarnings("ignore::clearfold.saliency.FewDistinctCellsWarning")
def test_rows_of_one_patient_do_not_vouch_for_each_other() -> None:
    """Thirty patients of six nearly equal rows each, labels at random: rows alone would look like strong evidence."""
    random = np.random.default_rng(3)
    patient = np.repeat(np.arange(30), 6)
    X = random.normal(size=(30, 6))[patient] + 0.05 * random.normal(size=(180, 6))
    y = random.permutation(np.repeat([0, 1], 15))[patient]
    assert VoronoiSaliency(n_perturbations=5, n_bootstraps=0, random_state=0).fit(X, y).rankings_
    with pytest.warns(NothingAboveNullWarning):
        VoronoiSaliency(n_perturbations=5, n_bootstraps=5, random_state=0).fit(X, y, groups=patient)


# What is promised -----------------------------------------------------------------------------------------------


def test_tables_have_their_columns_and_say_what_separates(switch: tuple) -> None:
    fitted, frame, _ = switch
    columns = ["feature", "saliency", "ci_low", "ci_high", "sign_agreement", "selected_share"]
    assert len(fitted.rankings_) == 2
    for ranking in fitted.rankings_:
        assert list(ranking.columns) == columns
        assert sorted(ranking["feature"]) == sorted(frame.columns)
        assert ranking["saliency"].abs().is_monotonic_decreasing
        assert (ranking["ci_low"] <= ranking["saliency"]).all()
        assert (ranking["saliency"] <= ranking["ci_high"]).all()
        assert ranking["sign_agreement"].iloc[0] == ranking["selected_share"].iloc[0] == 1
    regions = fitted.regions_
    assert regions["separates"].str.contains("f0").all()
    assert regions["mass"].sum() == pytest.approx(1)
    assert regions["above_null"].all()
    assert np.abs(regions["centre"].iloc[0][0]) == pytest.approx(3, abs=0.3)
    assert {"global_svm", "t_test", "local"} <= set(fitted.comparison_.columns)
    assert (regions["n_distinct_cells"] <= regions["n_cells"]).all()


def test_fitted_samples_keep_their_regions_when_they_come_again(switch: tuple) -> None:
    fitted, frame, side = switch
    again = fitted.predict_region(frame)
    np.testing.assert_array_equal(again, fitted.memberships_.argmax(axis=1))
    np.testing.assert_allclose(fitted.memberships_.sum(axis=1), 1)
    assert max((again == (side > 0)).mean(), (again == (side < 0)).mean()) > 0.99
    np.testing.assert_allclose(fitted.saliency(frame), fitted.memberships_ @ fitted.region_saliency_)
    np.testing.assert_allclose(fitted.saliency(frame.iloc[5:6])[0], fitted.saliency(frame)[5])


def test_same_seed_same_result_and_units_do_not_matter() -> None:
    X, y, _ = samples("mixed", 7300)
    first = VoronoiSaliency(random_state=5, **QUICK).fit(X, y)
    again = clone(first).fit(X, y)
    scaled = clone(first).fit(X * np.geomspace(1e-3, 1e3, 10) + 7, y)
    np.testing.assert_array_equal(first.region_saliency_, again.region_saliency_)
    np.testing.assert_allclose(first.region_saliency_, scaled.region_saliency_, atol=1e-3)


def test_swapped_classes_swap_the_signs() -> None:
    X, y, _ = samples("switch", 7400)
    first, second = (VoronoiSaliency(random_state=1, **QUICK).fit(X, sign * y) for sign in (1, -1))
    np.testing.assert_allclose(first.region_saliency_, -second.region_saliency_, atol=1e-3)


def test_constant_features_have_no_saliency() -> None:
    X, y, _ = samples("global", 7500)
    X[:, 4] = 2.5
    fitted = VoronoiSaliency(random_state=1, **QUICK).fit(X, y)
    assert (fitted.region_saliency_[:, 4] == 0).all()
    assert np.isfinite(fitted.saliency(X)).all()


# The parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [None, np.repeat(np.arange(15), 2)], ids=["samples", "patients"])
def test_left_out_errors_are_those_of_leaving_out(groups: np.ndarray | None) -> None:
    random = np.random.default_rng(0)
    X, y, weight = random.normal(size=(30, 4)), random.normal(size=30), random.uniform(0.2, 1, 30)
    errors = left_out_errors(X, y, weight, groups)
    codes = np.arange(30) if groups is None else groups
    share = weight / weight.sum()
    unit = (weight[:, None] * (X - share @ X) ** 2).sum() / 30
    by_hand = []
    for ridge in (0.01, 0.1, 1.0, 10.0):
        found = np.empty(30)
        for code in np.unique(codes):
            kept = codes != code
            A = np.c_[X, np.ones(30)]
            penalty = np.diag([ridge * unit] * 4 + [0.0])
            # the penalty does not touch the intercept, which stands at the mean
            w = np.linalg.solve(
                (A[kept] * weight[kept, None]).T @ A[kept] + penalty, (A[kept] * weight[kept, None]).T @ y[kept]
            )
            found[~kept] = y[~kept] - A[~kept] @ w
        by_hand.append(found)
    best = min(by_hand, key=lambda e: (weight * e**2).sum())
    np.testing.assert_allclose(errors, best, rtol=1e-6)


def test_compact_keeps_products() -> None:
    X = np.random.default_rng(0).normal(size=(12, 60))
    short = compact(X)
    centred = X - X.mean(axis=0)
    assert short.shape[1] <= 12
    np.testing.assert_allclose(short @ short.T, centred @ centred.T, atol=1e-9)


def test_space_is_stretched_only_where_classifiers_differ() -> None:
    random = np.random.default_rng(0)
    X, y, side = samples("flip", 7600)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    space = labelled_space(X, y.astype(float), 4, random)
    assert np.abs(space.directions[0, 0]) > 0.99
    assert space.place(X)[:, 0].std() > 2
    assert difference(X, y.astype(float), (side > 0).astype(float), (side < 0).astype(float)) > 8
    X, y, _ = samples("global", 7600)
    assert len(labelled_space(X / X.std(axis=0), y.astype(float), 4, random).directions) == 0


def test_the_widest_gap_is_cut() -> None:
    sides, gap = two_means(np.array([[0.0, 0], [0.1, 1], [5, 2], [5.1, 3]]))
    assert sides.tolist() == [[False, False], [False, False], [True, True], [True, True]]
    assert gap[0] > 0.99 > gap[1]


def test_possibilistic_clustering_leaves_an_outlier_alone_and_finds_the_number() -> None:
    random = np.random.default_rng(0)
    Z = np.r_[random.normal(0, 0.05, (30, 3)), random.normal(1, 0.05, (30, 3)), [[9.0, 9, 9]]]
    clusters = GradedPossibilisticClustering(alpha=0.7, random_state=0).fit(Z)
    assert clusters.n_clusters_ == 3
    np.testing.assert_array_equal(clusters.predict(Z), clusters.labels_)
    strict = GradedPossibilisticClustering(alpha=1.0, random_state=0).fit(Z)
    np.testing.assert_allclose(strict.memberships_.sum(axis=1), 1)
    assert clusters.membership(np.full((1, 3), 4.0)).max() < 0.01


def test_coincident_centres_split_again() -> None:
    """Two groups that one wide centre covers are found at a finer width, though every start was in one of them."""
    Z = np.r_[np.zeros((10, 2)), np.full((10, 2), 0.4)] + np.random.default_rng(0).normal(0, 0.01, (20, 2))
    options = {"beta_start": 2.0, "n_steps": 15, "alpha": 1.0, "init": [0, 1, 2]}
    assert GradedPossibilisticClustering(split=True, **options).fit(Z).n_clusters_ == 2


# The leukemia experiment ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def golub(data: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with np.load(data / "golub" / "golub.npz") as file:
        return file["X_train"].astype(float), file["y_train"], file["accession"]


@pytest.mark.filterwarnings("ignore::clearfold.saliency.FewDistinctCellsWarning")
def test_leukemia_signs_and_agreement_between_seeds(golub: tuple) -> None:
    X, label, accession = golub
    place = {str(name).split("_")[0]: j for j, name in reversed(list(enumerate(accession)))}
    first = []
    for seed in range(10):
        fitted = rve.corrected(random_state=seed, n_bootstraps=0, n_permutations=0).fit(X, label == "ALL")
        for t in fitted.region_saliency_:
            assert all(t[place[gene]] * (1 if high == "ALL" else -1) > 0 for gene, high in rve.TABLE_1.items())
        first.append(set(fitted.rankings_[0]["feature"].head(20)))
    pairs = [len(a & b) / len(a | b) for a, b in itertools.combinations(first, 2)]
    assert np.mean(pairs) >= 0.6


def test_four_hundred_cells_of_many_features_are_fast_and_their_number_is_warned_of(golub: tuple) -> None:
    X, label, _ = golub
    began = time.process_time()
    with pytest.warns(FewDistinctCellsWarning, match="distinct"):
        VoronoiSaliency(n_bootstraps=0, n_permutations=0, random_state=0).fit(X, label)
    assert time.process_time() - began < 3


@pytest.mark.filterwarnings("ignore::clearfold.saliency.FewDistinctCellsWarning")
def test_the_table_stands_beside_the_papers(golub: tuple) -> None:
    X, label, accession = golub
    result = rve.leukemia(X, label, accession)
    assert (result.table["corrected_sign"] == result.table["paper"]).all()
    assert 0.25 <= result.facts.set_index("what").loc["share of useful cells", "printed"] <= 0.9
    assert "M96326" in str(result)
    assert "useful" in str(result)
    assert all(len(genes.split()) == 25 for genes in rve.GOLUB_50.values())


# The command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    X, y, _ = samples("switch", 7700, n=200, m=5)
    frame = pd.DataFrame(X, columns=[f"<f{j}>" for j in range(5)])
    write_table(frame.assign(subtype=np.where(y > 0, "b", "a")), "table.csv")
    return tmp_path


def test_command_writes_a_report_and_all_rankings(table: Path) -> None:
    words = ["saliency", "table.csv", "--label", "subtype", "-o", "saliency.html", "--table", "rankings.csv"]
    done = CliRunner().invoke(app, [*words, "--perturbations", "20", "--bootstraps", "10", "--json"])
    assert done.exit_code == 0, done.output
    page = (table / "saliency.html").read_text(encoding="utf-8")
    assert "2 regions were found" in page
    assert "&lt;f1&gt;" in page
    assert "<f1>" not in page
    rankings = pd.read_csv("rankings.csv")
    assert len(rankings) == 10
    assert set(rankings.query("saliency == 1")["feature"]) == {"<f1>", "<f2>"}


def test_command_fails_in_words_and_keeps_files(table: Path) -> None:
    (table / "saliency.html").write_text("old")
    done = CliRunner().invoke(app, ["saliency", "table.csv", "--label", "subtype", "--sites", "500"])
    assert done.exit_code == 2
    assert (table / "saliency.html").read_text() == "old"
