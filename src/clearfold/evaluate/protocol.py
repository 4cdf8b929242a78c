"""The protocol of FINE and of VINK: rounds x embeddings x parameter search x rankings x classifiers, one tidy table.

Everything that learns (scaling, search, embedding, ranking, classifier) learns from the rows of the round alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import SVC, SVR

from clearfold.embedding.choice import search_samples
from clearfold.embedding.samples import Points
from clearfold.embedding.spectral import Matrix
from clearfold.embedding.threads import few_threads
from clearfold.errors import InputError
from clearfold.evaluate.measures import auc, mse
from clearfold.importance.formula import importances, loadings
from clearfold.importance.outcome import Outcome, read_outcome
from clearfold.importance.rounds import counted_warnings, read_patients
from clearfold.selection import FILTERS, OUTCOME_FILTERS, ranking, stability

if TYPE_CHECKING:
    import pandas as pd

CLASSIFIERS = {
    "logistic": LogisticRegression(max_iter=2000),
    "svm": SVC(kernel="rbf", gamma=0.5),
    "forest": RandomForestClassifier(n_estimators=50),
}
REGRESSORS = {
    "linear": LinearRegression(),
    "svm": SVR(kernel="rbf", gamma=0.5),
    "forest": RandomForestRegressor(n_estimators=50),
}


@dataclass(frozen=True)
class Protocol:
    """What a round does.

    embeddings : names and unfitted embeddings
    grids : for each name the values of n_neighbors and bandwidth to search; empty for the parameters as they are
    max_components : largest number of coordinates in a search; rule : "elbow", or "minimum" as FINE prints it
    importances : ways to rank on each embedding; filters : rankings without one
    classifiers : names of CLASSIFIERS (labels) or REGRESSORS (values); none for stability alone
    n_rounds : rounds; share : part of the patients drawn; max_rows : at most so many rows; balanced : classes alike
    n_selected : features that are kept; None for a tenth of the rows of the round
    again : classify on an embedding of the kept features (VINK) instead of the features themselves (FINE)
    """

    embeddings: Mapping[str, Any]
    grids: Mapping[str, Mapping[str, list[Any]]] = field(default_factory=dict)
    max_components: int = 20
    rule: str = "elbow"
    importances: tuple[str, ...] = ("fine", "auto")
    filters: tuple[str, ...] = ("t", "fisher", "gini")
    classifiers: tuple[str, ...] = ("logistic", "svm", "forest")
    n_rounds: int = 50
    share: float = 0.75
    max_rows: int | None = None
    balanced: bool = False
    n_selected: int | None = None
    again: bool = False


@dataclass(frozen=True)
class ProtocolResult:
    """What the rounds gave.

    table : DataFrame round, embedding, ranking, classifier, measure, value, n_features
    parameters : DataFrame round, embedding, and what the search chose
    stability : DataFrame embedding, ranking, jaccard, jaccard_chance, nogueira, ci_low, ci_high
    selections : for each (embedding, ranking) a boolean table rounds x features
    """

    table: pd.DataFrame
    parameters: pd.DataFrame
    stability: pd.DataFrame
    selections: dict[tuple[str, str], Any]

    def summary(self) -> pd.DataFrame:
        """Mean and standard deviation over rounds of every measure, beside stability."""
        keys = ["embedding", "ranking"]
        if self.table.empty:
            return self.stability
        mean = (
            self.table.groupby([*keys, "classifier", "measure"], sort=False)["value"].agg(["mean", "std"]).reset_index()
        )
        return mean.merge(self.stability[[*keys, "jaccard", "jaccard_chance", "nogueira"]], on=keys, how="left")


def run(
    X: Any,
    y: Any,
    protocol: Protocol,
    *,
    test: Any = None,
    groups: Any = None,
    n_jobs: int | None = None,
    seed: int = 0,
) -> ProtocolResult:
    """Run a protocol; classifiers are judged on `test` = (X, y) if given, else on the rows that a round left out."""
    X = _dense(X)
    outcome = read_outcome(y, len(X))
    patients = read_patients(groups, outcome, len(X))
    if outcome.kind == "censored":
        raise InputError(
            "a censored time came; the protocol wants labels or values. Use the survival measures instead."
        )
    other = (
        None
        if test is None
        else (np.asarray(test[0].toarray() if hasattr(test[0], "toarray") else test[0], float), test[1])
    )
    seeds = np.random.SeedSequence(seed).spawn(protocol.n_rounds)
    work = (delayed(_round)(X, outcome, patients.codes, protocol, other, s) for s in seeds)
    return _gathered(Parallel(n_jobs=n_jobs)(work), X.shape[1])


def _dense(X: Any) -> Matrix:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)


def draw(outcome: Outcome, patients: Any, protocol: Protocol, random: np.random.Generator) -> Any:
    """Rows of a round: a share of the patients of each class; equal classes if balanced; at most max_rows.

    patients : number of the patient of each row; all rows of a drawn patient come, unless `max_rows` or `balanced`
        leaves some out, and none of another
    """
    strata = np.zeros(len(patients), dtype=int) if outcome.codes is None else outcome.codes
    first = np.unique(patients, return_index=True)[1]
    chosen = []
    for stratum in np.unique(strata[first]):
        members = patients[first[strata[first] == stratum]]
        chosen.append(random.choice(members, max(1, round(protocol.share * len(members))), replace=False))
    rows = np.flatnonzero(np.isin(patients, np.concatenate(chosen)))
    if protocol.balanced and outcome.codes is not None:
        fewest = int(np.bincount(strata[rows]).min())
        rows = np.concatenate(
            [random.choice(rows[strata[rows] == c], fewest, replace=False) for c in np.unique(strata)]
        )
    if protocol.max_rows is not None and len(rows) > protocol.max_rows:
        rows = random.choice(rows, protocol.max_rows, replace=False)
    return np.sort(rows)


def _round(X: Matrix, outcome: Outcome, patients: Any, protocol: Protocol, test: Any, seed: Any) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    rows = draw(outcome, patients, protocol, random)
    mean, deviation = X[rows].mean(axis=0), X[rows].std(axis=0)
    deviation[deviation <= 1e-13 * np.abs(mean)] = np.inf
    if test is None:
        left = np.flatnonzero(~np.isin(patients, patients[rows]))
        X_test, y_test = X[left], outcome.source[left]
    else:
        X_test, y_test = test
    scene = _Scene(
        (X[rows] - mean) / deviation,
        outcome.take(rows),
        (X_test - mean) / deviation,
        y_test,
        protocol,
        int(random.integers(2**31)),
    )
    with counted_warnings() as warned, few_threads(len(rows)):
        scene.run()
    return {"rows": scene.results, "parameters": scene.parameters, "selected": scene.selected, "warnings": warned}


class _Scene:
    """One round: scaled training and test rows, and what came of them."""

    def __init__(self, X: Matrix, outcome: Outcome, X_test: Matrix, y_test: Any, protocol: Protocol, seed: int) -> None:
        self.X, self.outcome, self.X_test, self.y_test = X, outcome, X_test, np.asarray(y_test)
        self.protocol, self.seed = protocol, seed
        self.keep = min(protocol.n_selected or max(1, len(X) // 10), X.shape[1])
        self.results: list[dict[str, Any]] = []
        self.parameters: list[dict[str, Any]] = []
        self.selected: dict[tuple[str, str], Any] = {}

    def run(self) -> None:
        samples = Points(self.X, copy=False).remember_distances()
        spread = np.square(self.X).sum(axis=0)
        for name, embedding in self.protocol.embeddings.items():
            chosen = self._tuned(name, embedding, samples)
            chosen._fit_samples(samples)
            weights = getattr(chosen, "degrees_", None)
            of = loadings(chosen.embedding_, self.X, weights=weights, spread=spread if weights is None else None)
            for method in self.protocol.importances:
                self._judge(name, method, importances(of, self.outcome.target, method), chosen)
            if self.protocol.classifiers:
                self._classify(name, "coordinates", chosen.embedding_, chosen.transform(self.X_test))
        filters = FILTERS if self.outcome.kind == "label" else OUTCOME_FILTERS
        for filter_name in self.protocol.filters:
            extra = {"random_state": self.seed} if filter_name == "forest" else {}
            self._judge("", filter_name, filters[filter_name](self.X, self.outcome.source, **extra), None)

    def _tuned(self, name: str, embedding: Any, samples: Points) -> Any:
        grid = {key: list(values) for key, values in self.protocol.grids.get(name, {}).items()}
        if name not in self.protocol.grids:
            self.parameters.append({"embedding": name, "n_components": embedding.n_components})
            return clone(embedding)
        found = search_samples(embedding, samples, grid, self.protocol.max_components, self.protocol.rule)
        self.parameters.append({"embedding": name, **found.best})
        return found.best_estimator()

    def _judge(self, embedding: str, name: str, importance: Matrix, chosen: Any) -> None:
        selected = ranking(importance) <= self.keep
        self.selected[embedding, name] = selected
        train, test = self.X[:, selected], self.X_test[:, selected]
        if self.protocol.again and chosen is not None and self.protocol.classifiers:
            again = clone(chosen).set_params(n_components=min(chosen.n_components_, self.keep))
            train = again.fit_transform(train)
            test = again.transform(test)
        self._classify(embedding, name, train, test)

    def _classify(self, embedding: str, name: str, train: Matrix, test: Matrix) -> None:
        labels = self.outcome.kind == "label"
        scale = train.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        train, test = (train - train.mean(axis=0)) / scale, (test - train.mean(axis=0)) / scale
        for title in self.protocol.classifiers:
            model = clone((CLASSIFIERS if labels else REGRESSORS)[title])
            if "random_state" in model.get_params():
                model.set_params(random_state=self.seed)
            model.fit(train, self.outcome.source)
            value = self._measure(model, test)
            self.results.append(
                {
                    "embedding": embedding,
                    "ranking": name,
                    "classifier": title,
                    "measure": "AUC" if labels else "MSE",
                    "value": value,
                    "n_features": train.shape[1],
                }
            )

    def _measure(self, model: Any, test: Matrix) -> float:
        if self.outcome.kind != "label":
            return mse(self.y_test, model.predict(test))
        if len(np.unique(self.y_test)) < len(self.outcome.names):
            return float("nan")
        return auc(
            self.y_test,
            model.decision_function(test) if hasattr(model, "decision_function") else model.predict_proba(test),
        )


def _gathered(rounds: list[dict[str, Any]], n_features: int) -> ProtocolResult:
    import pandas as pd

    columns = ["round", "embedding", "ranking", "classifier", "measure", "value", "n_features"]
    table = pd.DataFrame([{"round": i, **row} for i, one in enumerate(rounds) for row in one["rows"]], columns=columns)
    parameters = pd.DataFrame([{"round": i, **row} for i, one in enumerate(rounds) for row in one["parameters"]])
    selections = {key: np.array([one["selected"][key] for one in rounds]) for key in rounds[0]["selected"]}
    stable = []
    if len(rounds) > 1:
        for (embedding, name), chosen in selections.items():
            found = stability(chosen)
            row = {
                "embedding": embedding,
                "ranking": name,
                "jaccard": found.jaccard,
                "jaccard_chance": found.jaccard_chance,
            }
            stable.append({**row, "nogueira": found.nogueira, "ci_low": found.ci_low, "ci_high": found.ci_high})
    keys = ["embedding", "ranking", "jaccard", "jaccard_chance", "nogueira", "ci_low", "ci_high"]
    return ProtocolResult(table, parameters, pd.DataFrame(stable, columns=keys), selections)
