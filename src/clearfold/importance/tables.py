"""Tables of features, of families, and of the rankings that a reader would try first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError
from clearfold.importance.outcome import Outcome
from clearfold.importance.rounds import interval, q_values
from clearfold.selection import correlation, gini, ranking, welch_t
from clearfold.table import family

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Families:
    """Family of each feature, the families in order of appearance, and m x families with 1 where one belongs."""

    of_feature: list[str]
    names: list[str]
    membership: Any


def read_families(wanted: Mapping[str, str] | Sequence[str] | None, features: list[str]) -> Families:
    """Families from a mapping, a sequence, or the names of the features up to their first dot."""
    if wanted is None:
        of_feature = [family(name) for name in features]
    elif isinstance(wanted, Mapping):
        missing = [name for name in features if name not in wanted]
        if missing:
            raise InputError(
                f"no family came for {len(missing)} features ({', '.join(missing[:3])}). Name one for each."
            )
        of_feature = [str(wanted[name]) for name in features]
    elif len(wanted) == len(features):
        of_feature = [str(name) for name in wanted]
    else:
        raise InputError(f"{len(wanted)} families came for {len(features)} features. Name one for each feature.")
    names = list(dict.fromkeys(of_feature))
    place = {name: i for i, name in enumerate(names)}
    columns = [place[name] for name in of_feature]
    return Families(of_feature, names, sparse.csr_array((np.ones(len(columns)), (range(len(columns)), columns))))


def share_columns(share: Matrix, drawn: Matrix, p_value: Matrix) -> dict[str, Matrix]:
    """importance with its interval from rounds and its p- and q-value, NaN where there are none."""
    nothing = np.full(len(share), np.nan)
    low, high = interval(share, drawn) if len(drawn) else (nothing, nothing)
    known = np.isfinite(p_value).all()
    q_value = q_values(p_value) if known else nothing
    return {"importance": share, "ci_low": low, "ci_high": high, "p_value": p_value, "q_value": q_value}


def comparison(features: list[str], X: Matrix, outcome: Outcome, label_free: Matrix) -> pd.DataFrame:
    """Ranks by what a reader would try first; a censored time is compared by its residuals."""
    import pandas as pd

    if outcome.kind == "label":
        values = {"t": welch_t(X, outcome.codes), "gini": gini(X, outcome.codes)}
    else:
        values = {"correlation": correlation(X, outcome.target[:, 0])}
    ranks = {name: ranking(value) for name, value in {**values, "label_free": label_free}.items()}
    return pd.DataFrame({"feature": features, **ranks})
