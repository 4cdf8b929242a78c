"""Risk groups are honest: nobody's own outcome made his risk, noise is called noise, and figures are lifelines'."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifelines import CoxPHFitter
from lifelines.datasets import load_gbsg2
from lifelines.statistics import logrank_test, multivariate_logrank_test
from lifelines.utils import concordance_index
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from clearfold.datasets import load_wpbc
from clearfold.embedding import PCA
from clearfold.errors import InputError, MissingExtraError
from clearfold.survival import CoxRisk, concordance, kaplan_meier, log_rank_z, ridge_cox, risk_groups


def cohort(n: int, m: int, seed: int, effect: float = 0.0) -> tuple[Any, Any, Any]:
    """Exponential times, about half of them censored; feature 0 doubles or halves the hazard if asked to."""
    random = np.random.default_rng([seed, n, m])
    X = random.standard_normal((n, m))
    time, end = random.exponential(10 * np.exp(-effect * X[:, 0])), random.exponential(12, n)
    return X, np.minimum(time, end), (time <= end).astype(int)


def all_features(m: int) -> CoxRisk:
    return CoxRisk(n_features=m)


# The arithmetic is that of lifelines ----------------------------------------------------------------------


@pytest.mark.parametrize("penalizer", [0.01, 0.1, 1.0])
def test_ridge_cox_is_that_of_lifelines(penalizer: float) -> None:
    X, time, event = cohort(120, 4, 0, effect=0.7)
    X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)  # lifelines penalises after this scaling
    frame = pd.DataFrame(X).assign(time=time, event=event)
    reference = CoxPHFitter(penalizer=penalizer).fit(frame, "time", "event").params_.to_numpy()
    assert ridge_cox(X, time, event, penalizer) == pytest.approx(reference, abs=1e-5)


def test_ridge_cox_is_at_the_minimum_with_ties() -> None:
    X, time, event = cohort(60, 3, 1, effect=0.5)
    time = np.ceil(time)

    def loss(b: Any) -> float:
        at_risk = np.exp(X @ b) @ (time[:, None] >= time[None, :])
        return float((event * (np.log(at_risk) - X @ b)).sum() / len(X) + 0.05 * b @ b)

    b = ridge_cox(X, time, event, 0.1)
    for step in 1e-4 * np.vstack([np.eye(3), -np.eye(3)]):
        assert loss(b + step) > loss(b)


TIMES = st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.integers(0, 3)), min_size=4, max_size=30)


@settings(max_examples=80, deadline=None)
@given(TIMES)
def test_concordance_is_that_of_lifelines_with_ties(rows: list[tuple[int, bool, int]]) -> None:
    time, event, risk = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    try:
        reference = concordance_index(time, -risk, event)
    except ZeroDivisionError:
        assert np.isnan(concordance(time, event, risk))
        return
    assert concordance(time, event, risk) == pytest.approx(reference)


@settings(max_examples=80, deadline=None)
@given(TIMES)
def test_log_rank_is_that_of_lifelines_with_ties(rows: list[tuple[int, bool, int]]) -> None:
    time, event, code = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    z = log_rank_z(time, event, code > 1)
    assert log_rank_z(time, event, code <= 1) == pytest.approx(-z, abs=1e-9)
    if 0 < (code > 1).sum() < len(code) and z != 0:
        high = code > 1
        reference = logrank_test(time[high], time[~high], event[high], event[~high]).test_statistic
        assert z**2 == pytest.approx(reference, rel=1e-6)


def test_concordance_compares_within_folds_alone() -> None:
    time, event = np.array([1.0, 2, 3, 4]), np.ones(4)
    risk = np.array([2.0, 1.0, 20.0, 10.0])  # right inside each fold, wrong across
    assert concordance(time, event, risk, [0, 0, 1, 1]) == 1.0
    assert concordance(time, event, risk) == pytest.approx(2 / 6)


# Curves -------------------------------------------------------------------------------------------------------


def test_a_curve_by_hand() -> None:
    found = kaplan_meier([1, 2, 2, 3, 5, 1, 4], [1, 1, 0, 1, 0, 0, 1], list("aaaaabb"))
    a = found.curves[found.curves["group"] == "a"].set_index("time")
    assert a["survival"].to_dict() == pytest.approx({0: 1, 1: 4 / 5, 2: 3 / 5, 3: 3 / 10, 5: 3 / 10})
    assert a["at_risk"].to_dict() == {0: 5, 1: 5, 2: 4, 3: 2, 5: 1}
    assert a["events"].to_dict() == {0: 0, 1: 1, 2: 1, 3: 1, 5: 0}
    assert found.summary["median"].tolist() == [3.0, 4.0]


def test_curves_and_figures_on_breast_cancer() -> None:
    data = load_gbsg2()
    time, event, group = data["time"], data["cens"], data["horTh"]
    found = kaplan_meier(time, event, group)
    assert found.log_rank_p == pytest.approx(multivariate_logrank_test(time, group, event).p_value)
    frame = pd.DataFrame({"yes": (group == "yes").astype(float), "time": time, "event": event})
    cox = CoxPHFitter().fit(frame, "time", "event")
    assert found.hazard_ratio.value == pytest.approx(float(cox.hazard_ratios_["yes"]))
    assert (found.hazard_ratio.low, found.hazard_ratio.high) == pytest.approx(
        tuple(np.exp(cox.confidence_intervals_.iloc[0])), rel=1e-5
    )
    for _, curve in found.curves.groupby("group"):
        assert (curve["survival"].diff().dropna() <= 1e-12).all()
        assert curve["survival"].between(curve["low"], curve["high"]).all()
        assert curve["events"].sum() + curve["censored"].sum() == curve["at_risk"].iloc[0]
    turned = kaplan_meier(time, event, pd.Categorical(group, categories=["yes", "no"]))
    assert turned.hazard_ratio.value == pytest.approx(1 / found.hazard_ratio.value, rel=1e-4)
    assert turned.log_rank_p == pytest.approx(found.log_rank_p)


def test_groups_keep_their_order_and_the_first_is_the_reference() -> None:
    _, time, event = cohort(90, 1, 3)
    found = kaplan_meier(time, event, np.repeat([10, 2, 1], 30))
    assert found.summary["group"].tolist() == ["1", "2", "10"]
    assert found.summary["hazard_ratio"].iloc[0] == 1.0
    assert found.summary["ci_low"].iloc[1:].notna().all()


@pytest.mark.parametrize(
    ("time", "event", "said"),
    [
        ([1, 2, 3, 4, 5, 6], [1, 1, 1, 0, 0, 0], "no event in group b"),
        ([1, 2, 3, 4, 5, 6], [1, 1, 1, 1, 1, 1], "part completely"),
    ],
)
def test_groups_that_part_completely_are_a_note_and_no_warning(time: Any, event: Any, said: str) -> None:
    found = kaplan_meier(time, event, list("aaabbb"))
    assert np.isnan(found.hazard_ratio.value)
    assert said in str(found)
    assert found.log_rank_p < 0.1


# Out of fold --------------------------------------------------------------------------------------------------


def test_the_outcome_of_a_fold_has_no_part_in_its_risk() -> None:
    X, time, event = cohort(60, 4, 4, effect=1.0)
    settings_ = {"estimator": all_features(4), "n_folds": 3, "n_permutations": 0, "n_bootstrap": 0, "random_state": 1}
    before = risk_groups(X, time, event, **settings_).table
    mine = (before["fold"] == 1).to_numpy()
    other = time.copy()
    other[mine] = time[mine][::-1] * 7 + 1  # events stay: they spread patients over folds
    after = risk_groups(X, other, event, **settings_).table
    assert (after["fold"] == before["fold"]).all()
    assert (after.loc[mine, ["risk", "group"]] == before.loc[mine, ["risk", "group"]]).all(axis=None)
    assert not np.allclose(after.loc[~mine, "risk"], before.loc[~mine, "risk"])


def test_rows_of_a_patient_stay_together_and_count_once() -> None:
    X, time, event = cohort(50, 3, 5, effect=0.8)
    options = {"estimator": all_features(3), "n_permutations": 5, "n_bootstrap": 50, "random_state": 2}
    once = risk_groups(X, time, event, groups=np.arange(50), **options)
    twice = risk_groups(*(np.repeat(a, 2, axis=0) for a in (X, time, event)), groups=np.arange(50).repeat(2), **options)
    pd.testing.assert_frame_equal(once.table, twice.table)
    assert twice.log_rank_p == once.log_rank_p
    assert twice.table["patient"].is_unique


def test_noise_is_noise_and_in_sample_risk_would_call_it_a_finding() -> None:
    ours, nominal, in_sample, covered = [], [], [], []
    for seed in range(40):
        X, time, event = cohort(60, 10, seed)
        found = risk_groups(
            X, time, event, estimator=all_features(10), n_folds=4, n_permutations=19, n_bootstrap=0, random_state=seed
        )
        ours.append(found.log_rank_p <= 0.05)
        nominal.append(found.nominal_p <= 0.05)
        covered.append(1.0 in found.hazard_ratio)
        risk = all_features(10).fit(X, np.column_stack([time, event])).predict(X)
        in_sample.append(abs(log_rank_z(time, event, risk > np.median(risk))) >= 1.96)
    assert sum(ours) <= 6  # 2 are expected; more than 6 come once in 300 times
    assert sum(covered) >= 33
    assert sum(in_sample) >= 20
    assert sum(nominal) > sum(ours)


def test_a_true_effect_is_found() -> None:
    X, time, event = cohort(150, 6, 6, effect=1.0)
    found = risk_groups(X, time, event, estimator=all_features(6), n_permutations=39, n_bootstrap=200)
    assert found.log_rank_p == 1 / 40
    assert found.hazard_ratio.low > 1
    assert found.concordance.low > 0.5
    assert found.concordance.low < found.concordance.value < found.concordance.high
    assert set(found.curves["group"]) == {"low", "high"}


def test_the_same_seed_gives_the_same_result_in_any_number_of_processes() -> None:
    X, time, event = cohort(50, 3, 7)
    options: dict[str, Any] = {"estimator": all_features(3), "n_permutations": 6, "n_bootstrap": 60, "random_state": 9}
    one, two = (risk_groups(X, time, event, n_jobs=jobs, **options) for jobs in (None, 2))
    pd.testing.assert_frame_equal(one.table, two.table)
    assert (one.log_rank_p, one.hazard_ratio, one.concordance) == (two.log_rank_p, two.hazard_ratio, two.concordance)


def test_tertiles_are_given_in_advance() -> None:
    X, time, event = cohort(120, 3, 8, effect=1.0)
    found = risk_groups(X, time, event, estimator=all_features(3), cuts=(1 / 3, 2 / 3), n_permutations=19)
    assert found.kaplan_meier.summary["group"].tolist() == ["low", "middle", "high"]
    assert found.kaplan_meier.summary["n"].between(25, 55).all()
    assert found.hazard_ratio.value > 1
    assert found.log_rank_p <= 0.1


class Structured(BaseEstimator):
    """A survival estimator of another library: y has the fields event and time."""

    def fit(self, X: Any, y: Any) -> "Structured":
        assert y.dtype.names == ("event", "time")
        self.b_ = np.linalg.lstsq(X, -np.log(y["time"] + 1), rcond=None)[0]
        return self

    def predict(self, X: Any) -> Any:
        return X @ self.b_


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        LinearSVC(),
        RandomForestRegressor(20, min_samples_leaf=5, random_state=0),
        PCA(n_components=3),
        Structured(),
        CoxRisk(embedding=PCA(n_components=3), n_features=2),
        None,
    ],
    ids=lambda one: type(one).__name__,
)
def test_any_model_may_make_the_risk(estimator: Any) -> None:
    X, time, event = cohort(120, 4, 9, effect=1.5)
    X[:, 0] *= 3  # so that PCA sees it
    found = risk_groups(X, time, event, estimator=estimator, n_permutations=0, n_bootstrap=0)
    assert found.hazard_ratio.value > 1
    assert found.concordance.value > 0.6
    assert np.isnan(found.log_rank_p)
    assert "nominal" in str(found)


def test_features_of_the_risk_model_are_those_of_the_training_part() -> None:
    X, time, event = cohort(100, 12, 10, effect=2.0)
    model = CoxRisk(embedding=PCA(n_components=6), n_features=3).fit(X, np.column_stack([time, event]))
    assert len(model.support_) == 3
    assert 0 in model.support_
    assert model.predict(X).mean() == pytest.approx(0, abs=1e-9)
    with pytest.raises(InputError, match="two columns"):
        model.fit(X, time)


def test_a_constant_feature_has_no_say() -> None:
    X, time, event = cohort(60, 3, 11, effect=1.0)
    X[:, 2] = 5.0
    model = all_features(3).fit(X, np.column_stack([time, event]))
    moved = X.copy()
    moved[:, 2] = 1e6
    assert np.array_equal(model.predict(X), model.predict(moved))


# Bad input ----------------------------------------------------------------------------------------------------

GOOD = {"time": [1.0, 2, 3, 4, 5, 6], "event": [1, 0, 1, 1, 0, 1], "group": list("ababab")}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"time": [1, 2, -3, 4, 5, 6]}, "negative or infinite .*-3"),
        ({"time": [1, 2, np.inf, 4, 5, 6]}, "negative or infinite"),
        ({"time": [1, 2, np.nan, 4, 5, 6]}, "1 of 6 times are missing"),
        ({"time": list("abcdef")}, "time wants numbers"),
        ({"time": [3] * 6}, "every time is 3"),
        ({"event": [1, 0, None, 1, 0, 1]}, "1 of 6 events are missing"),
        ({"event": [1, 0, np.nan, 1, 0, 1]}, "1 of 6 events are missing"),
        ({"event": [1, 0, 2, 1, 0, 1]}, "event=.*2.* came; wanted is 1"),
        ({"event": list("RNRNRN")}, r"outcome == 'R'"),
        ({"event": [0] * 6}, "all 6 samples are censored"),
        ({"event": [1, 0, 1]}, r"event of shape \(3,\)"),
        ({"group": ["a"] * 6}, r"one group only came \(a\)"),
        ({"group": ["a", "b", None, "a", "b", "a"]}, "1 of 6 samples have no group"),
        ({"group": ["a", "b"]}, "Give one group for each sample"),
    ],
)
def test_curves_refuse_what_they_cannot_use(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        kaplan_meier(**(GOOD | change))


def test_true_and_false_are_events_too() -> None:
    truth = kaplan_meier(GOOD["time"], np.array(GOOD["event"], dtype=bool), GOOD["group"])
    assert truth.log_rank_p == kaplan_meier(**GOOD).log_rank_p


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"X": np.ones((3, 2))}, r"X of shape \(3, 2\) came with 40 times"),
        ({"X": np.full((40, 2), np.nan)}, "40 of 40 rows of X have missing"),
        ({"X": np.full((40, 1), "a")}, "X wants numbers"),
        ({"n_folds": 1}, "n_folds=1 came"),
        ({"n_folds": 40}, "number of events"),
        ({"cuts": (0.6, 0.4)}, "rising shares"),
        ({"cuts": ()}, "rising shares"),
        ({"groups": np.zeros(40)}, "patient 0.0 has rows of different time or event"),
        ({"groups": np.zeros(3)}, "Give the patient of each row"),
        ({"groups": [None, *range(39)]}, "1 of 40 patients are missing"),
        ({"estimator": "cox"}, "an object with fit and predict"),
        ({"estimator": DummyRegressor()}, "one group only"),
        ({"estimator": CoxRisk(penalizer=0)}, "penalizer=0 came"),
        ({"estimator": CoxRisk(n_features=0)}, "n_features=0 came"),
        ({"n_permutations": -1}, "n_permutations=-1 came"),
    ],
)
def test_risk_groups_refuse_what_they_cannot_use(change: dict[str, Any], said: str) -> None:
    X, time, event = cohort(40, 2, 12)
    given_ = {"X": X, "time": time, "event": event, "n_permutations": 0, "estimator": all_features(2)} | change
    with pytest.raises(InputError, match=said):
        risk_groups(**given_)


def test_without_lifelines_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lifelines", None)
    with pytest.raises(MissingExtraError, match=r"clearfold\[survival\]"):
        kaplan_meier(**GOOD)


# Pictures and real patients -----------------------------------------------------------------------------------


def test_the_picture_shows_the_numbers_at_risk(tmp_path: Path) -> None:
    from clearfold.plot import save
    from clearfold.plot.survival import at_risk, survival_curves

    found = kaplan_meier(*(load_gbsg2()[name] for name in ("time", "cens", "horTh")))
    ax = found.plot()
    save(ax, tmp_path / "curves.png")
    data = load_gbsg2()
    written = {text.get_text() for text in ax.texts}
    for group, curve in found.curves.groupby("group"):
        wanted = int(((data["horTh"] == group) & (data["time"] >= 1000)).sum())
        assert at_risk(curve, 1000) == wanted
        assert str(wanted) in written
    with pytest.raises(InputError, match="no column group"):
        survival_curves(pd.DataFrame({"time": [1.0]}))


def test_recurrence_of_breast_cancer(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARFOLD_DATA", str(data))
    wpbc = load_wpbc()
    whole = wpbc.take(wpbc.X.notna().all(axis=1))
    found = risk_groups(whole.X, whole.table["time"], whole.table["event"], groups=whole.groups, n_permutations=0)
    assert len(found.table) == 194
    assert found.table["event"].sum() == 46
    assert 1.2 < found.hazard_ratio.value < 3.5
    assert 0.55 < found.concordance.value < 0.75
