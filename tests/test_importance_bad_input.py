"""What cannot be ranked is refused: the message says what came and what to do, and nothing is left half done."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from clearfold.embedding import PCA, Isomap
from clearfold.errors import ClearfoldError
from clearfold.importance import EmbeddingImportance, agreement, fine_importance

N = 24
X = np.random.default_rng(0).normal(size=(N, 6))
Y = np.arange(N) % 2
TIME = np.arange(1.0, N + 1)


def importance(**options: Any) -> EmbeddingImportance:
    return EmbeddingImportance(**{"embedding": PCA(n_components=2), "n_rounds": 0, "n_permutations": 0, **options})


def fit(X: Any = X, y: Any = Y, groups: Any = None, **options: Any) -> EmbeddingImportance:
    return importance(**options).fit(X, y, groups=groups)


def after(coordinates: Any = X[:, :2], X: Any = X, y: Any = Y, **options: Any) -> np.ndarray:
    return fine_importance(coordinates, X, y, **options)


def replaced(table: Any, row: int, value: Any) -> Any:
    """The table with one entry (of the first column) replaced."""
    table = table.copy()
    table[(row, *[0] * (table.ndim - 1))] = value
    return table


def text(value: Any, kind: Any = object) -> Any:
    return pd.Series([*np.where(Y, "b", "a")[:-1], value], dtype=kind)


Case = tuple[Callable[[], Any], str, str]
"""What is done, what the message says of what came, and what it says to do."""

LABELS: dict[str, Case] = {
    "none at all": (lambda: fit(y=None), "no labels", "Give"),
    "one class": (lambda: fit(y=np.full(N, "tumour")), "one class.*tumour", "Check|at least two"),
    "one class, after the fact": (lambda: after(y=np.zeros(N)), "one class", "Check|at least two"),
    "NaN": (lambda: fit(y=replaced(Y.astype(float), 3, np.nan)), f"1 of {N} labels", "Drop"),
    "None": (lambda: fit(y=text(None).to_numpy()), f"1 of {N} labels", "Drop"),
    "NaN among text": (lambda: fit(y=text(np.nan)), f"1 of {N} labels", "Drop"),
    "NA among text": (lambda: fit(y=text(pd.NA, "string")), f"1 of {N} labels", "Drop"),
    "NA among categories": (lambda: fit(y=text(None, "category")), f"1 of {N} labels", "Drop"),
    "NA among numbers": (lambda: fit(y=pd.Series([*Y[:-1], None], dtype="Int64")), f"1 of {N} labels", "Drop"),
    "NaN, after the fact": (lambda: after(y=replaced(Y.astype(float), 3, np.nan)), f"1 of {N} labels", "Drop"),
    "NaN among values": (lambda: fit(y=replaced(X[:, 0], 3, np.nan)), f"1 of {N}", "Drop"),
    "infinite value": (lambda: fit(y=replaced(X[:, 0], 3, np.inf)), "infinite", "Drop"),
    "unlabelled": (lambda: fit(y=replaced(Y, 3, -1)), "-1", "Drop"),
    "class of one sample": (lambda: fit(y=replaced(Y, 3, 2)), r"single sample.*2", "Merge|drop"),
    "identifiers": (lambda: fit(y=[f"case {i}" for i in range(N)]), "single sample.*case", "Merge|drop"),
    "too few": (lambda: fit(y=Y[:-1]), f"{N - 1} labels.*{N} samples", "one for each"),
    "too many": (lambda: fit(y=np.append(Y, 0)), f"{N + 1} labels.*{N} samples", "one for each"),
    "too few, after the fact": (lambda: after(y=Y[:-1]), f"{N - 1} labels.*{N} samples", "one for each"),
    "a single label": (lambda: fit(y=1), "label", "one for each|Give"),
    "three columns": (lambda: fit(y=X[:, :3]), rf"\({N}, 3\)", "one column"),
    "constant value": (lambda: fit(y=np.full(N, 1.5)), "1.5", "Check"),
    "text as a value": (lambda: fit(y=np.where(Y, "b", "a"), outcome="value"), "text", "outcome='label'"),
}

CENSORED: dict[str, Case] = {
    "negative time": (lambda: fit(y=np.c_[replaced(TIME, 3, -1.0), Y]), "time", "not negative"),
    "infinite time": (lambda: fit(y=np.c_[replaced(TIME, 3, np.inf), Y]), "time", "wants|wanted"),
    "missing time": (lambda: fit(y=np.c_[replaced(TIME, 3, np.nan), Y]), "time", "none missing"),
    "missing event": (lambda: fit(y=np.c_[TIME, replaced(Y.astype(float), 3, np.nan)]), "event", "none missing"),
    "event 2": (lambda: fit(y=np.c_[TIME, 2 * Y]), "event", "1 or 0"),
    "columns swapped": (lambda: fit(y=np.c_[Y, TIME]), "event", "1 or 0"),
    "event of text": (lambda: fit(y=np.c_[TIME.astype(str), np.where(Y, "yes", "no")]), "event", "1 or 0"),
    "event of text in a table": (
        lambda: fit(y=pd.DataFrame({"time": TIME, "event": np.where(Y, "yes", "no")})),
        "event",
        "1 or 0",
    ),
    "no event": (lambda: fit(y=np.c_[TIME, 0 * Y]), "0 events", "at least two"),
    "one event": (lambda: fit(y=np.c_[TIME, replaced(0 * Y, 3, 1)]), "1 events", "at least two"),
    "one column": (lambda: fit(y=TIME, outcome="censored"), "one column|shape|censored", "two columns|time, event"),
    "columns of other names": (
        lambda: fit(y=np.array(list(zip(Y == 1, TIME, strict=True)), dtype=[("status", bool), ("days", float)])),
        "status",
        "time.*event|event.*time",
    ),
}

FEATURES: dict[str, Case] = {
    "NaN": (lambda: fit(replaced(X, 3, np.nan)), "NaN", "[Ii]mpute"),
    "infinite": (lambda: fit(replaced(X, 3, np.inf)), "infinity", "Replace or drop"),
    "text": (lambda: fit(np.where(X > 0, "high", "low")), "high|low", "numeric"),
    "a column of text": (lambda: fit(pd.DataFrame(X).add_prefix("x").assign(grade="high")), "high", "numeric"),
    "all constant": (lambda: fit(np.full((N, 6), 0.1)), "constant", "Check"),
    "all constant, raw": (lambda: fit(np.full((N, 6), 0.1), standardize=False), "constant", "Check"),
    "all constant, after the fact": (lambda: after(X=np.full((N, 6), 0.1)), "constant", "Check"),
    "one sample": (lambda: fit(X[:1], Y[:1]), "1 sample", "more samples"),
    "one dimension": (lambda: fit(X[:, 0]), "1D", "[Rr]eshape"),
    "no feature": (lambda: fit(X[:, :0]), "0 feature", "minimum of 1|Give"),
    "NaN in a sparse table": (lambda: fit(sparse.csr_array(replaced(X, 3, np.nan))), "NaN", "[Ii]mpute"),
    "NaN, after the fact": (lambda: after(X=replaced(X, 3, np.nan)), "NaN", "[Ii]mpute"),
}

SIZES: dict[str, Case] = {
    "fewer samples than components": (
        lambda: fit(X[:5], Y[:5], embedding=PCA(n_components=6)),
        "n_components=6.*only 4",
        "at most 4",
    ),
    "fewer samples than neighbours": (
        lambda: fit(X[:5], [0, 1, 0, 1, 0], embedding=Isomap(n_components=2, n_neighbors=8)),
        "n_neighbors=8.*5 samples",
        "at most 4",
    ),
    "rounds smaller than components": (
        lambda: fit(X[:7], Y[:7], embedding=PCA(n_components=5), n_rounds=4),
        r"\brounds?\b",
        "n_components|n_rounds=0",
    ),
    "a class in one patient": (
        lambda: fit(groups=np.where(Y, 100, np.arange(N))),
        "class 1.*one patient",
        "Add patients|merge",
    ),
    "everyone in one patient": (lambda: fit(groups=np.zeros(N)), "one patient", "Add patients|merge"),
    "groups of other length": (lambda: fit(groups=np.arange(N - 1)), rf"\({N - 1},\).*{N} samples", "one patient for"),
    "missing patient": (lambda: fit(groups=[None, None, *range(N - 2)]), "patient|groups", "missing"),
    "patient NaN": (lambda: fit(groups=[np.nan, np.nan, *range(N - 2)]), "patient|groups", "missing"),
    "coordinates of other rows": (
        lambda: after(X[: N - 4, :2]),
        rf"\({N - 4}, 2\).*\({N}, 6\)",
        "these very rows",
    ),
    "coordinates of one dimension": (lambda: after(X[:, 0]), "1D", "[Rr]eshape"),
    "coordinates that do not vary": (lambda: after(np.ones((N, 2))), "do not vary", "Pass"),
    "coordinates with NaN": (lambda: after(replaced(X[:, :2], 3, np.nan)), "coordinates.*NaN", "[Ii]mpute|[Dd]rop"),
    "weights of other length": (lambda: after(sample_weight=np.ones(N - 1)), f"{N - 1}.*{N}", "one for each|wanted"),
    "negative weights": (lambda: after(sample_weight=replaced(np.ones(N), 3, -1.0)), "weight", "not negative|above 0"),
    "no weight at all": (lambda: after(sample_weight=np.zeros(N)), "weight", "above 0|not negative|positive"),
    "weights with NaN": (lambda: after(sample_weight=replaced(np.ones(N), 3, np.nan)), "weight", "missing|finite"),
    "directions of other shape": (lambda: after(directions=np.ones((6, 3))), r"\(6, 3\)", r"\(6, 2\)"),
}

PARAMETERS: dict[str, Case] = {
    "method": (lambda: fit(method="shap"), "method='shap'", "auto, fine, coherent, gradient"),
    "method, after the fact": (lambda: after(method="shap"), "method='shap'", "auto, fine, coherent, gradient"),
    "method of agreement": (lambda: agreement(X, Y, method="shap"), "method='shap'", "auto, fine, coherent, gradient"),
    "outcome": (lambda: fit(outcome="survival"), "outcome='survival'", "'label', 'value' or 'censored'"),
    "outcome of two columns": (
        lambda: fit(y=np.c_[TIME, Y], outcome="survival"),
        "outcome='survival'",
        "'label', 'value' or 'censored'",
    ),
    "one round": (lambda: fit(n_rounds=1), "n_rounds=1 ", "0 or to at least 2"),
    "negative rounds": (lambda: fit(n_rounds=-1), "n_rounds=-1 ", "0 or more"),
    "half a round": (lambda: fit(n_rounds=2.5), r"n_rounds=2\.5 ", "whole number"),
    "negative permutations": (lambda: fit(n_permutations=-1), "n_permutations=-1 ", "0 or more"),
    "permutations of text": (lambda: fit(n_permutations="many"), "n_permutations='many' ", "whole number"),
    "redundancy above 1": (lambda: fit(redundancy=2), "redundancy=2 ", "from 0 to 1"),
    "redundancy below 0": (lambda: fit(redundancy=-0.1), r"redundancy=-0\.1 ", "from 0 to 1"),
    "redundancy NaN": (lambda: fit(redundancy=np.nan), "redundancy=nan ", "from 0 to 1"),
    "redundancy of text": (lambda: fit(redundancy="high"), "redundancy='high' ", "from 0 to 1"),
    "no feature to select": (lambda: fit(n_features_to_select=0), "n_features_to_select=0 ", "from 1 to 6"),
    "too many features to select": (lambda: fit(n_features_to_select=7), "n_features_to_select=7 ", "from 1 to 6"),
    "families missing": (lambda: fit(families={"x0": "shape"}), "5 features.*x1, x2, x3", "one for each"),
    "too few families": (lambda: fit(families=["shape"]), "1 families.*6 features", "one for each"),
    "no embedding": (lambda: fit(embedding="pca"), "embedding='pca'", r"PCA\(|instance|wanted"),
    "no embeddings to compare": (lambda: agreement(X, Y, {}), "embeddings", "at least one|Name|wanted"),
    "nothing to compare": (lambda: agreement(X, Y, top=0), "top=0", "at least 1|wanted"),
}

CASES = {
    f"{kind}: {name}": case
    for kind, cases in {
        "labels": LABELS,
        "censored time": CENSORED,
        "features": FEATURES,
        "sizes": SIZES,
        "parameters": PARAMETERS,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", CASES)
def test_the_message_says_what_came_and_what_to_do(name: str) -> None:
    act, came, advice = CASES[name]
    with pytest.raises(ClearfoldError, match=rf"(?s){came}") as caught:
        act()
    assert isinstance(caught.value, ValueError)
    caught.match(rf"(?s){advice}")


@pytest.mark.parametrize(
    "change",
    [
        {"families": {"x0": "shape"}},
        {"families": ["shape"]},
        {"n_features_to_select": 7},
        {"n_rounds": 1},
        {"redundancy": 2},
        {"method": "shap"},
        {"embedding": PCA(n_components=9)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_after_a_refusal_nothing_is_fitted(change: dict[str, Any]) -> None:
    refused = importance(**change)
    with pytest.raises(ClearfoldError):
        refused.fit(X, Y)
    for use in (lambda: refused.transform(X), refused.get_support, refused.interchangeable, refused.plot):
        with pytest.raises(NotFittedError):
            use()
    assert not hasattr(refused, "table_")
    assert not hasattr(refused, "importances_")


def test_before_fitting_nothing_is_fitted() -> None:
    new = importance()
    for use in (lambda: new.transform(X), new.get_support, new.interchangeable, new.plot):
        with pytest.raises(NotFittedError):
            use()


def test_a_refusal_leaves_the_last_fit_as_it_was() -> None:
    """The ranking, the table and what is selected stay those of one and the same fit."""
    fitted = importance(n_features_to_select=2).fit(X, Y)
    before = fitted.importances_.copy(), fitted.table_.copy(), fitted.transform(X)
    fitted.set_params(families={"x0": "shape"})
    with pytest.raises(ClearfoldError):
        fitted.fit(X[::-1] ** 2, Y)
    np.testing.assert_array_equal(fitted.importances_, before[0])
    pd.testing.assert_frame_equal(fitted.table_, before[1])
    np.testing.assert_array_equal(fitted.transform(X), before[2])


def test_constructors_refuse_nothing() -> None:
    """They only remember; `fit` looks."""
    odd = EmbeddingImportance(method="shap", n_rounds=-1, redundancy=7, families=3, embedding="pca")
    assert odd.get_params()["n_rounds"] == -1
    assert odd.get_params()["families"] == 3


def test_new_samples_with_other_features_are_refused() -> None:
    fitted = fit()
    with pytest.raises(ValueError, match=r"5 features.*6 features"):
        fitted.transform(X[:, :5])
