"""What has no local ranking is refused: the message says what came and what to do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from clearfold.errors import InputError
from clearfold.plot import saliency_bars
from clearfold.saliency import GradedPossibilisticClustering, VoronoiSaliency

N = 24
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, 5))
Y = np.arange(N) % 2
APART = np.r_[RANDOM.normal(-9, 1, (N // 2, 3)), RANDOM.normal(9, 1, (N // 2, 3))]
"""Two classes so far apart that every cell is pure."""


def fit(X: Any = X, y: Any = Y, groups: Any = None, **options: Any) -> VoronoiSaliency:
    quick = {"n_perturbations": 3, "n_bootstraps": 0, "n_permutations": 0, "random_state": 0}
    return VoronoiSaliency(**(quick | options)).fit(X, y, groups)


def cluster(X: Any = X, weight: Any = None, **options: Any) -> GradedPossibilisticClustering:
    return GradedPossibilisticClustering(**options).fit(X, sample_weight=weight)


def hole(value: float) -> Any:
    table = X.copy()
    table[3, 2] = value
    return table


Case = tuple[Callable[[], Any], str, str]
"""What is done, what the message says of what came, and what it says to do."""

CASES: dict[str, Case] = {
    "no labels": (lambda: fit(y=None), "no labels", "Give y"),
    "one class": (lambda: fit(y=np.full(N, "tumour")), "one class.*tumour", "Check"),
    "a lonely class": (lambda: fit(y=np.r_[np.zeros(N - 1), 1]), "single sample", "Merge|drop"),
    "too few labels": (lambda: fit(y=Y[:-1]), f"{N - 1} labels.*{N} samples", "Give one"),
    "a missing label": (lambda: fit(y=np.r_[Y[:-1].astype(float), np.nan]), "1 of 24 labels", "Drop"),
    "fewer samples than sites": (lambda: fit(n_sites=30), "24 samples.*30 sites", "n_sites to at most 24"),
    "every cell pure": (lambda: fit(APART, np.repeat([0, 1], N // 2), n_sites=2), "one class only", "n_sites lower"),
    "constant features": (lambda: fit(np.ones((N, 3))), "constant", "features that vary"),
    "NaN": (lambda: fit(hole(np.nan)), "NaN", "Impute|drop"),
    "infinity": (lambda: fit(hole(np.inf)), "infinity", "Replace|drop"),
    "text": (lambda: fit(np.full((N, 2), "a")), "convert", "numeric"),
    "one row": (lambda: fit(X[:1], Y[:1]), "1 sample", "more samples"),
    "patients of another number": (lambda: fit(groups=[1, 2]), "groups of shape", "one patient"),
    "no sites": (lambda: fit(n_sites=0), "n_sites=0", "1 or more"),
    "sites as text": (lambda: fit(n_sites="4"), "n_sites='4'", "whole number"),
    "negative permutations": (lambda: fit(n_permutations=-1), "n_permutations=-1", "0 or more"),
    "alpha beyond 1": (lambda: fit(alpha=1.5), "alpha=1.5", "0 to 1"),
    "position below 0": (lambda: fit(position=-0.1), "position=-0.1", "0 to 1"),
    "amplitude below 0": (lambda: fit(amplitude=-1), "amplitude=-1", "amplitude >= 0"),
    "a word for a width": (lambda: fit(beta="fine"), "beta='fine'", "'auto' or a number"),
    "unknown placement": (lambda: fit(placement="random"), "placement='random'", "'labels' or 'plain'"),
    "unknown label": (lambda: fit(y=np.arange(N) % 3).saliency(X, label="z"), "label='z'", "one of 0, 1, 2"),
    "other columns": (lambda: fit().saliency(X[:, :3]), "features", "same columns"),
    "NaN later": (lambda: fit().predict_region(hole(np.nan)), "NaN", "Impute"),
    "no bars": (lambda: fit().plot(top=0), "top=0", "at least one"),
    "no such region": (lambda: saliency_bars(fit(), 9), "region=9", "there are"),
    "clusters: alpha": (lambda: cluster(alpha=-1), "alpha=-1", "0 .possibilistic. to 1"),
    "clusters: widths": (lambda: cluster(beta=1.0), "beta=1.0", "beta <= beta_start"),
    "clusters: number": (lambda: cluster(n_clusters=0), "n_clusters=0", "1 or more"),
    "clusters: start": (lambda: cluster(init="near"), "init='near'", "'farthest'"),
    "clusters: weights": (lambda: cluster(weight=[1, 2]), "weights of shape", "24 numbers above 0"),
    "clusters: NaN": (lambda: cluster(hole(np.nan)), "NaN", "Impute"),
}


@pytest.mark.parametrize(("do", "came", "wanted"), CASES.values(), ids=CASES.keys())
@pytest.mark.filterwarnings("ignore::clearfold.errors.ClearfoldWarning")
def test_refused_with_a_reason(do: Callable[[], Any], came: str, wanted: str) -> None:
    with pytest.raises(InputError, match=f"(?s){came}") as error:
        do()
    assert __import__("re").search(wanted, str(error.value)), error.value


def test_asked_before_it_was_fitted() -> None:
    for ask in (VoronoiSaliency().saliency, VoronoiSaliency().predict_region):
        with pytest.raises(NotFittedError):
            ask(X)


@pytest.mark.filterwarnings("ignore::clearfold.errors.ClearfoldWarning")
def test_odd_but_usable_input() -> None:
    for options in ({"n_sites": 1}, {"beta": 0.05}, {"placement": "plain"}, {"position": 0.0}, {"amplitude": 0.0}):
        fitted = fit(**options)
        assert np.isfinite(fitted.saliency(X)).all()
    assert fit(X[:, :1]).plot() is not None
    assert fit(np.r_[X[:2].repeat(6, axis=0), X[:12]]).regions_ is not None
