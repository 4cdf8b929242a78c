"""What the rounds of FINE and of VINK say: figures by name, one tidy table, and who was drawn."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.evaluate.protocol import Protocol, ProtocolResult, draw
from clearfold.importance.outcome import read_outcome
from clearfold.importance.rounds import read_patients
from clearfold.papers.claims import Figure, jaccard_figure, mean_figure
from clearfold.selection import jaccard

if TYPE_CHECKING:
    import pandas as pd

CLASSIFIERS = {"logistic": "LR", "svm": "SVM", "forest": "RF", "linear": "linear"}
FILTERS = {"t": "t-test", "fisher": "Fisher", "gini": "Gini"}
N_TOP = 5


def method_name(embedding: str, ranking: str) -> str:
    """FINE PCA, auto PCA, PCA coordinates; t-test, Fisher, Gini."""
    if ranking == "coordinates":
        return f"{embedding} coordinates"
    return f"{'FINE' if ranking == 'fine' else ranking} {embedding}" if embedding else FILTERS.get(ranking, ranking)


def by_round(result: ProtocolResult) -> dict[tuple[str, str], Any]:
    """(method, classifier) -> one value for each round."""
    table = result.table.assign(
        method=[method_name(e, r) for e, r in zip(result.table["embedding"], result.table["ranking"], strict=True)]
    )
    groups = table.sort_values("round", kind="stable").groupby(["method", "classifier"], sort=False)["value"]
    return {(str(m), CLASSIFIERS[str(c)]): group.to_numpy() for (m, c), group in groups}


def measure_figures(data: str, result: ProtocolResult) -> dict[str, Figure]:
    """'Madelon AUC FINE PCA LR', and what FINE's features gain over the coordinates themselves."""
    values = by_round(result)
    measure = "AUC" if (result.table["measure"] == "AUC").all() else "MSE"
    found = {f"{data} {measure} {method} {title}": mean_figure(of) for (method, title), of in values.items()}
    for (method, title), of in values.items():
        kind, _, embedding = method.partition(" ")
        if kind in ("FINE", "auto"):
            apart = of - values[f"{embedding} coordinates", title]
            found[f"{data} gain of {method} over coordinates {title}"] = mean_figure(apart)
    return found


def stability_figures(data: str, result: ProtocolResult) -> dict[str, Figure]:
    """'Madelon J FINE PCA', and how far it is above the best filter."""
    chosen = {method_name(*key): selections for key, selections in result.selections.items()}
    found = {f"{data} J {method}": jaccard_figure(of) for method, of in chosen.items()}
    filters = [chosen[name] for name in FILTERS.values() if name in chosen]
    for method, of in chosen.items():
        if filters and method.startswith(("FINE ", "auto ")):
            found[f"{data} J {method} above filters"] = jaccard_figure(of, *filters)
    return found


def figure_3(result: ProtocolResult) -> pd.DataFrame:
    """Measure against Jaccard of every method and classifier: the points of Fig. 3 and 4."""
    import pandas as pd

    stable = {method_name(*key): jaccard_figure(of) for key, of in result.selections.items()}
    measure = str(result.table["measure"].iloc[0])
    rows = []
    for (method, title), of in by_round(result).items():
        value, together = mean_figure(of), stable.get(method, Figure(float("nan")))
        rows.append([method, title, value.value, value.low, value.high, together.value, together.low, together.high])
    names = ["method", "classifier", measure, "low", "high", "J", "J low", "J high"]
    return pd.DataFrame(rows, columns=names)


def voted(result: ProtocolResult, features: Any, count: int = N_TOP) -> dict[str, list[str]]:
    """The features that most rounds selected, for each way of ranking (Table V); ties to the first feature."""
    names = np.asarray(features)
    return {
        method_name(*key): [str(name) for name in names[np.argsort(-of.sum(axis=0), kind="stable")[:count]]]
        for key, of in result.selections.items()
    }


def agreement(lists: dict[str, list[str]], kind: str = "FINE") -> float:
    """Mean Jaccard index of the lists of all pairs of embeddings."""
    own = [names for method, names in lists.items() if method.startswith(f"{kind} ")]
    return float(np.mean([jaccard(a, b) for a, b in combinations(own, 2)]))


def drawn(y: Any, protocol: Protocol, *, groups: Any = None, seed: int = 0) -> list[list[int]]:
    """The rows of each round, drawn as `evaluate.run` draws them."""
    outcome = read_outcome(np.asarray(y), len(y))
    codes = read_patients(groups, outcome, len(y)).codes
    seeds = np.random.SeedSequence(seed).spawn(protocol.n_rounds)
    return [draw(outcome, codes, protocol, np.random.default_rng(one)).tolist() for one in seeds]
