"""The boosted metric and its embeddings: expected numbers, promises, and what they reach on held-out samples."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer, load_iris, make_blobs
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from clearfold import evaluate
from clearfold.embedding import BoostedGraphEmbedding, BoostedMetric, GraphEmbedding
from clearfold.embedding.graph_embedding import is_broad
from clearfold.embedding.metric import fit_gamma
from clearfold.embedding.operator import Normalised
from clearfold.errors import InputError, LabelFreeWarning


@pytest.fixture
def numbers(vectors: Path) -> dict[str, np.ndarray]:
    return dict(np.load(vectors / "graph" / "bose.npz"))


def up_to_sign(columns: np.ndarray, like: np.ndarray) -> np.ndarray:
    return columns * np.sign(np.einsum("ij,ij->j", columns, like))


# --- expected numbers


def test_weak_learners(numbers: dict[str, np.ndarray]) -> None:
    train, X, y = numbers["train"], numbers["X"], numbers["y"]
    metric = BoostedMetric(n_features=12, repeated=True).fit(X[train], y[train])
    learner = metric.learner_
    np.testing.assert_allclose(learner.shift, numbers["shift"], rtol=1e-12)
    np.testing.assert_allclose(learner.prior, numbers["prior"], rtol=1e-12)
    np.testing.assert_allclose(learner.parameters, numbers["gamma_params"], rtol=1e-10)
    np.testing.assert_allclose(learner.posterior(X)[1], numbers["posterior"], atol=1e-12)
    decided = np.where(learner.decide(X) == 1, 1, -1)
    np.testing.assert_array_equal(decided, numbers["weak"])
    np.testing.assert_allclose(metric.mean_, numbers["mean"], rtol=1e-12)
    np.testing.assert_allclose(metric.scale_, numbers["std"], rtol=1e-12)


def test_repeated_picks_and_their_distances(numbers: dict[str, np.ndarray]) -> None:
    train, X, y = numbers["train"], numbers["X"], numbers["y"]
    metric = BoostedMetric(n_features=12, repeated=True).fit(X[train], y[train])
    np.testing.assert_array_equal(metric.picks_, numbers["picks"])
    np.testing.assert_allclose(metric.pick_alphas_, numbers["alpha_t"], rtol=1e-10)
    np.testing.assert_allclose(metric.errors_, numbers["eps_t"], rtol=1e-10)
    alphas = np.zeros(8)
    alphas[metric.features_] = metric.alphas_
    np.testing.assert_allclose(alphas, numbers["alpha"], rtol=1e-10)
    placed = metric.transform(X)
    np.testing.assert_allclose(cdist(placed, placed), numbers["D_bdm"], atol=1e-10)


def test_distinct_picks_are_the_default(numbers: dict[str, np.ndarray]) -> None:
    train, X, y = numbers["train"], numbers["X"], numbers["y"]
    metric = BoostedMetric(n_features=4).fit(X[train], y[train])
    np.testing.assert_array_equal(metric.features_, numbers["u_picks"])
    np.testing.assert_allclose(metric.alphas_, numbers["u_alpha"][metric.features_], rtol=1e-10)
    placed = metric.transform(X)
    np.testing.assert_allclose(cdist(placed, placed), numbers["u_D"], atol=1e-10)
    assert 7 not in BoostedMetric(n_features=8).fit(X[train], y[train]).features_  # constant


def test_a_perfect_learner_has_a_finite_weight_and_picking_goes_on(numbers: dict[str, np.ndarray]) -> None:
    train, X, y = numbers["train"], numbers["Xp"], numbers["y"]
    metric = BoostedMetric(n_features=4).fit(X[train], y[train])
    np.testing.assert_array_equal(metric.features_, numbers["p_picks"])
    np.testing.assert_allclose(metric.alphas_, numbers["p_alpha"][metric.features_], rtol=1e-10)
    np.testing.assert_allclose(metric.errors_, numbers["p_eps"], atol=1e-12)
    assert metric.alphas_[0] == pytest.approx(0.5 * np.log((1 - 1 / 60) / (1 / 60)))
    assert BoostedMetric(learner="stump").fit(X[train], y[train]).features_[0] == 3


def test_embedding_and_its_areas(numbers: dict[str, np.ndarray]) -> None:
    train, test, X, y = (numbers[name] for name in ("train", "test", "X", "y"))
    metric = BoostedMetric(n_features=12, repeated=True).fit(X[train], y[train])
    graph = GraphEmbedding(n_components=3).fit(metric.transform(X))
    assert graph.bandwidth_ == pytest.approx(numbers["sigma"])
    np.testing.assert_allclose(1 - graph.eigenvalues_, numbers["mu"], rtol=1e-10)
    np.testing.assert_allclose(up_to_sign(graph.embedding_, numbers["Y"]), numbers["Y"], atol=1e-9)
    found = evaluate.retrieval(graph.embedding_, y, groups="each")
    np.testing.assert_allclose(found.queries, numbers["auprc_q"], rtol=1e-10)
    assert evaluate.auprc(graph.embedding_[test], y[test]) == pytest.approx(numbers["auprc_heldout"], rel=1e-10)
    plain = GraphEmbedding(n_components=3, power=2).fit((X - numbers["mean"]) / numbers["std"])
    assert plain.bandwidth_ == pytest.approx(numbers["sigma_se"])
    np.testing.assert_allclose(1 - plain.eigenvalues_, numbers["mu_se"], rtol=1e-10)
    assert evaluate.auprc(plain.embedding_, y) == pytest.approx(numbers["auprc_se"], rel=1e-10)


def test_gamma_fits_are_those_of_scipy() -> None:
    random = np.random.default_rng(0)
    X = np.column_stack([random.gamma(shape, scale, 400) for shape, scale in ((0.3, 2.0), (2.0, 1e-3), (80.0, 50.0))])
    for column, (shape, scale) in zip(X.T, fit_gamma(X), strict=True):
        expected = stats.gamma.fit(column, floc=0)
        assert shape == pytest.approx(expected[0], rel=1e-6)
        assert scale == pytest.approx(expected[2], rel=1e-6)


# --- what the metric promises


@pytest.mark.parametrize("learner", ["gamma", "stump"])
def test_transform_is_the_boosted_distance(learner: str) -> None:
    X, y = load_iris(return_X_y=True)
    metric = BoostedMetric(n_features=3, learner=learner).fit(X, y)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    at, alphas = metric.features_, metric.alphas_
    expected = np.sqrt(sum(a * cdist(z[:, [f]], z[:, [f]]) ** 2 for f, a in zip(at, alphas, strict=True)))
    np.testing.assert_allclose(cdist(metric.transform(X), metric.transform(X)), expected, atol=1e-10)
    assert (alphas > 0).all()
    assert set(at) <= {0, 1, 2, 3}
    assert len(metric.classes_) == 3


@pytest.mark.parametrize("learner", ["gamma", "stump"])
@pytest.mark.parametrize("repeated", [False, True])
def test_informative_features_are_picked_among_many_classes(learner: str, repeated: bool) -> None:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 40)
    X = random.normal(size=(200, 20)) - 3  # negative
    X[:, 7] += 2 * y
    X[:, 11] += 2 * (y % 2)
    X[:, 4] = 1.0
    metric = BoostedMetric(n_features=2, learner=learner, repeated=repeated).fit(X, y)
    assert metric.features_[0] == 7
    assert set(metric.features_) <= {7, 11}
    assert 4 not in BoostedMetric(n_features=20, learner=learner).fit(X, y).features_


def test_a_stump_sees_what_a_gamma_density_does_not() -> None:
    """One class in two far groups on either side is beyond a single density; a threshold still halves it."""
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], 150)
    X = random.gamma(4.0, 1.0, size=(300, 6))
    X[:100, 2] += 1000.0
    X[100:150, 2] += 1.0
    X[150:, 2] += 5.0 * (random.random(150) < 0.5)
    gamma, stump = (BoostedMetric(n_features=1, learner=name).fit(X, y) for name in ("gamma", "stump"))
    assert stump.features_[0] == 2
    assert stump.errors_[0] < 0.2
    assert stump.errors_[0] <= gamma.errors_[0]


def test_stump_error_is_the_best_over_all_thresholds() -> None:
    random = np.random.default_rng(1)
    X, y = random.integers(0, 6, size=(60, 4)).astype(float), random.integers(0, 3, 60)
    metric = BoostedMetric(n_features=1, learner="stump").fit(X, y)
    weights = random.random(60)
    weights /= weights.sum()
    for feature in range(4):
        best = 1.0
        for cut in np.unique(X[:, feature])[:-1]:
            below = X[:, feature] <= cut
            sides = [max(weights[side & (y == c)].sum() for c in range(3)) for side in (below, ~below)]
            best = min(best, 1 - sum(sides))
        assert metric.learner_.errors(weights)[feature] == pytest.approx(best)
        assert weights @ metric.learner_.missed(feature, weights) == pytest.approx(best)


def test_unknown_labels_count_only_for_the_scale() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    known = np.arange(len(y)) % 3 > 0
    partly = BoostedMetric().fit(X, np.where(known, y, -1))
    np.testing.assert_array_equal(partly.features_, BoostedMetric().fit(X[known], y[known]).features_)
    np.testing.assert_allclose(partly.mean_, X.mean(axis=0))
    named = np.where(known, np.where(y, "benign", "malignant"), None)
    np.testing.assert_array_equal(BoostedMetric().fit(X, named).features_, partly.features_)


def test_names_sparse_tables_and_frames() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    metric = BoostedMetric().fit(X, y)
    assert list(metric.get_feature_names_out()) == list(X.columns[metric.features_])
    thin = BoostedMetric().fit(sparse.csr_array(X.to_numpy()), y)
    np.testing.assert_allclose(thin.transform(sparse.csr_array(X.to_numpy())), metric.transform(X))


# --- the embedding


@pytest.mark.parametrize("labels", [False, True])
def test_training_samples_return_and_batches_do_not_matter(labels: bool) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    fitted = BoostedGraphEmbedding(labels=labels).fit(X[:200], y[:200])
    np.testing.assert_allclose(fitted.transform(X[:200]), fitted.embedding_, atol=1e-8)
    together = fitted.transform(X[200:300])
    alone = np.vstack([fitted.transform(row[None]) for row in X[200:300]])
    np.testing.assert_allclose(alone, together, atol=1e-9)
    np.testing.assert_allclose(fitted.transform(X[200:])[:100], together, atol=1e-9)


def test_it_is_a_composition() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    fitted = BoostedGraphEmbedding(bandwidth="median", axis_scaling=False, labels=True).fit(X, y)
    metric = BoostedMetric().fit(X, y)
    graph = GraphEmbedding(n_components=3).fit(metric.transform(X), y)
    np.testing.assert_array_equal(fitted.embedding_, graph.embedding_)
    half = BoostedGraphEmbedding().fit(X, y)
    assert half.graph_.bandwidth_ == pytest.approx(fitted.graph_.bandwidth_ / 2)


def held_out(fit: Any, X: np.ndarray, y: np.ndarray, seed: int) -> float:
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, random_state=seed, stratify=y)
    return evaluate.auprc(fit(X[train], y[train]).transform(X[test]), y[test])


def test_held_out_on_breast_cancer() -> None:
    """20 seeds: standardised spectral embedding .847, BoSE .866, with labels .881; random labels .537, chance .538."""
    X, y = load_breast_cancer(return_X_y=True)
    scaled = StandardScaler().fit_transform(X)
    seeds = range(8)
    plain = np.mean([held_out(GraphEmbedding(n_components=3, power=2).fit, scaled, y, s) for s in seeds])
    boosted = np.mean([held_out(BoostedGraphEmbedding().fit, X, y, s) for s in seeds])
    both = np.mean([held_out(BoostedGraphEmbedding(labels=True).fit, X, y, s) for s in seeds])
    assert boosted >= 0.84
    assert boosted > plain
    assert both >= boosted


@pytest.mark.parametrize("labels", [False, True])
def test_random_labels_separate_in_training_at_most(labels: bool) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    lifts = []
    for seed in range(5):
        drawn = np.random.default_rng(seed).permutation(y)
        fitted = BoostedGraphEmbedding(labels=labels).fit(X[:300], drawn[:300])
        report = fitted.separation(X[300:], drawn[300:])
        lifts.append((report.training - report.training_chance, report.held_out - report.held_out_chance))
        assert "held-out" in str(report)
    trained, outside = np.mean(lifts, axis=0)
    assert abs(outside) < 0.015
    assert trained > outside


# --- labels in the graph


def test_labels_of_rows_outside_the_training_set_change_nothing() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    train = np.arange(len(y)) < 250
    for make in (GraphEmbedding(n_components=3), BoostedGraphEmbedding(), BoostedGraphEmbedding(labels=True)):
        table = X if isinstance(make, BoostedGraphEmbedding) else StandardScaler().fit_transform(X)
        before = make.fit(table[train], y[train]).transform(table)
        changed = np.where(train, y, 1 - y)
        np.testing.assert_array_equal(make.fit(table[train], changed[train]).transform(table), before)


def test_axis_scaling_divides_by_the_root_of_the_frequency() -> None:
    X, y = make_blobs(120, centers=4, n_features=5, random_state=0)
    plain, scaled = (GraphEmbedding(n_components=3, axis_scaling=flag).fit(X, y) for flag in (False, True))
    np.testing.assert_allclose(scaled.embedding_, plain.embedding_ / np.sqrt(1 - plain.eigenvalues_), rtol=1e-10)
    np.testing.assert_allclose(scaled.transform(X + 0.1), plain.transform(X + 0.1) / np.sqrt(1 - plain.eigenvalues_))
    np.testing.assert_array_equal(scaled.transform(X), scaled.embedding_)


def test_nearest_neighbourhood_holds_every_samples_neighbours() -> None:
    X, _ = make_blobs(120, centers=3, n_features=5, random_state=0, cluster_std=4.0)
    fitted = GraphEmbedding(neighborhood="nearest", n_neighbors=8).fit(X)
    inside = (cdist(X, X) < fitted.neighborhood_).sum(axis=1) - 1
    assert inside.min() == 8
    np.testing.assert_allclose(fitted.transform(X), fitted.embedding_, atol=1e-9)
    with pytest.raises(InputError, match="n_neighbors"):
        GraphEmbedding(neighborhood="nearest", n_neighbors=500).fit(X)


@pytest.mark.parametrize(
    ("bandwidth", "labels", "words"),
    [
        (1.2, [0, 1], "below"),
        (1e9, [0, 1], "above"),
        ("median", [-1, 2], "only one class"),
    ],
)
def test_labels_without_influence_are_told(bandwidth: Any, labels: list[int], words: str) -> None:
    X = np.random.default_rng(0).normal(size=(60, 50)) * np.linspace(2, 1, 50)
    y = np.resize(labels, 60)
    with pytest.warns(LabelFreeWarning, match=words):
        GraphEmbedding(bandwidth=bandwidth, n_components=1).fit(X, y)


# --- bad input


@pytest.mark.parametrize("make", [BoostedMetric, BoostedGraphEmbedding])
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.full(40, -1), "no labelled sample"),
        (np.where(np.arange(40) < 20, 3, -1), "only one class came among the labelled samples"),
        (np.where(np.arange(40) == 7, 2, np.arange(40) % 2), "single sample"),
        (np.linspace(0, 1, 40), "continuous"),
        (np.zeros(7), "7 labels came for 40 samples"),
        (None, "requires y"),
    ],
)
def test_labels_that_teach_nothing_are_refused(make: Any, labels: Any, words: str) -> None:
    X = np.random.default_rng(0).normal(size=(40, 5))
    with pytest.raises(InputError, match=words):
        make().fit(X, labels)


@pytest.mark.parametrize(
    ("change", "words"), [({"n_features": 0}, "n_features=0"), ({"learner": "tree"}, "learner='tree'")]
)
def test_settings_that_are_none_are_refused(change: dict[str, Any], words: str) -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match=words):
        BoostedMetric(**change).fit(X, y)


def test_separation_wants_two_classes() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    fitted = BoostedGraphEmbedding().fit(X[:100], y[:100])
    with pytest.raises(InputError, match="two classes came among the held-out"):
        fitted.separation(X[100:110], np.zeros(10))
    with pytest.raises(InputError, match="3 labels came for 10 held-out samples"):
        fitted.separation(X[100:110], np.zeros(3))


@parametrize_with_checks(
    [
        BoostedMetric(),
        BoostedMetric(learner="stump", repeated=True),
        BoostedGraphEmbedding(n_components=1),
        BoostedGraphEmbedding(n_components=1, labels=True),
    ]
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def test_frames_give_named_coordinates() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = BoostedGraphEmbedding().set_output(transform="pandas").fit(X, y).transform(X)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == [f"boostedgraphembedding{i}" for i in range(3)]
    named = BoostedGraphEmbedding().set_output(transform="pandas").fit(X[::2], y[::2])
    assert named.separation(X[1::2], y[1::2]).held_out > 0.8


def test_labels_that_were_never_seen_are_told() -> None:
    X, y = load_iris(return_X_y=True)
    fitted = BoostedGraphEmbedding(n_components=2).fit(X[:100], y[:100])
    with pytest.warns(LabelFreeWarning, match="label 2 was never seen"):
        fitted.separation(X[50:], y[50:])


def test_separation_of_labels_in_a_graph() -> None:
    """Random labels: drawn together where they were known, at chance elsewhere."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 4)), random.integers(0, 2, 300)
    fitted = GraphEmbedding(n_components=3, neighborhood="mst").fit(X[:200], np.where(np.arange(200) % 5, y[:200], -1))
    report = fitted.separation(X[200:], y[200:])
    assert report.n_training == 160
    assert report.training > report.training_chance
    assert abs(report.held_out - report.held_out_chance) < 0.03
    with pytest.raises(InputError, match="without labels"):
        GraphEmbedding().fit(X).separation(X, y)


def test_broad_neighbourhoods_need_no_factor() -> None:
    """Products alone and a factor give the same coordinates."""
    random = np.random.default_rng(0)
    along = random.uniform(0, 9, 900)
    X = np.column_stack([along, random.uniform(0, 4, 900), random.normal(size=900) / 9])
    fitted = GraphEmbedding(n_components=3, neighborhood=2.0, bandwidth=3.0).fit(X)
    weights = fitted._affinity(fitted._fitted.within(2.0))
    assert is_broad(weights)
    spectrum = Normalised(weights).decompose(3)
    np.testing.assert_allclose(fitted.eigenvalues_, spectrum.values, rtol=1e-10)
    np.testing.assert_allclose(fitted.embedding_, spectrum.coordinates, atol=1e-7)
    np.testing.assert_allclose(fitted.transform(X), fitted.embedding_, atol=1e-8)
