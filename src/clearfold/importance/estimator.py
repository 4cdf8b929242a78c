"""The estimator: which original features drive the embedding, and can that be trusted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from clearfold.embedding import Isomap
from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError, LabelFreeWarning, UnequalScalesWarning
from clearfold.importance.coordinates import Fitted, checked_features, fitted_coordinates
from clearfold.importance.formula import METHODS, Loadings, centred, importances, loadings
from clearfold.importance.outcome import Outcome, read_outcome
from clearfold.importance.redundancy import interchangeable, penalised_ranking
from clearfold.importance.rounds import (
    Null,
    Patients,
    counted_warnings,
    draws,
    exceedance,
    interval,
    permuted,
    q_values,
    read_patients,
)
from clearfold.selection import Stability, correlation, gini, ranking, stability, welch_t
from clearfold.table import family

if TYPE_CHECKING:
    import pandas as pd


class EmbeddingImportance(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Share of each feature in what an embedding's coordinates say about y; the shares sum to 1.

    `importances_` use every row given to fit. Rounds on three quarters of the patients give intervals and stability,
    permuted labels give p-values. A selector too: inside a pipeline it learns inside each fold and keeps names.

    Parameters
    ----------
    embedding : any embedding of clearfold, or a scikit-learn transformer; Isomap(n_components=5) if None
    method : "fine" (the papers'), "coherent" (keeps the signs that "fine" squares away), "gradient" (sees rings and
        interactions), "auto" (coherent and gradient by leave-one-out evidence)
    n_rounds : rounds for intervals and stability; 0 for none
    n_permutations : permuted labels for p-values; 0 for none
    n_features_to_select : features that `transform` keeps and that stability is judged on; None for a tenth of the
        rows, at most half of the features
    standardize : divide each feature by its standard deviation first; scale rules the ranking otherwise
    families : family of each feature, a mapping from names or a sequence; None for the name up to its first dot
    redundancy : 0 to 1, penalty on features that correlate with better ones in the ranking
    outcome : "auto", "label", "value" or "censored"
    n_jobs : processes for the rounds
    verbose : show a progress bar
    random_state : seed of rounds and permutations

    Attributes
    ----------
    importances_ : (m,) shares; ranking_ : (m,) 1 is best
    table_ : DataFrame feature, family, importance, rank, ci_low, ci_high, p_value, q_value, selected_share, fidelity
    family_importances_ : DataFrame family, n_features, importance, ci_low, ci_high, p_value, q_value
    stability_ : Jaccard with its chance level and Nogueira's stability with its interval, None without rounds
    label_share_ : 1 - correlation of the importances with the label-free ones, at least 0: what the labels added
    label_free_ : (m,) shares without any label
    comparison_ : DataFrame feature, and its rank by simple filters (t, gini; correlation for values) and label_free
    embedding_ : the fitted embedding; loadings_ : what it knows of the features
    round_importances_ : (rounds, m); round_warnings_ : rounds in which each kind of warning occurred

    Notes
    -----
    Known about these rankings: plain "fine" loses to a t-test on most real sets; "auto" gains clearly over it and ties
    with good filters. With one coordinate labels have no influence at all. A feature of low fidelity (R^2 on the
    coordinates) is hardly seen by the embedding, whatever its share. Censored times (columns time, event) enter as
    martingale residuals of the Cox model without covariates.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from clearfold.embedding import PCA
    >>> data = load_breast_cancer(as_frame=True)
    >>> imp = EmbeddingImportance(embedding=PCA(n_components=5), n_rounds=10, random_state=0)
    >>> imp.fit(data.data, data.target).table_.sort_values("rank")["feature"].iloc[0]
    'worst concave points'
    """

    def __init__(
        self,
        *,
        embedding: Any = None,
        method: str = "auto",
        n_rounds: int = 50,
        n_permutations: int = 1000,
        n_features_to_select: int | None = None,
        standardize: bool = True,
        families: Mapping[str, str] | Sequence[str] | None = None,
        redundancy: float = 0.0,
        outcome: str = "auto",
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.embedding = embedding
        self.method = method
        self.n_rounds = n_rounds
        self.n_permutations = n_permutations
        self.n_features_to_select = n_features_to_select
        self.standardize = standardize
        self.families = families
        self.redundancy = redundancy
        self.outcome = outcome
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Rank the features of X by their part in what the embedding of X says about y.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (n, m)
        y : labels, values, or two columns (time, event)
        groups : patient of each row; rows of a patient stay together in rounds and permutations
        """
        self._check_parameters()
        X = checked_features(self, X)
        outcome = read_outcome(y, len(X), self.outcome)
        patients = read_patients(groups, outcome, len(X))
        seed, null_seed = check_random_state(self.random_state).randint(2**31, size=2)
        self._say_scales(X)
        X, own = self._prepared(X), None if groups is None else patients.codes
        fitted, of = self._loadings(X, outcome, own)
        self.embedding_, self.loadings_, self._outcome_kind = fitted.estimator, of, outcome.kind
        self.importances_, self.label_free_ = importances(of, outcome.target, self.method), of.label_free
        self.ranking_ = penalised_ranking(self.importances_, X, self.redundancy)
        self.label_share_ = _label_share(self.importances_, of.label_free)
        self.comparison_ = _comparison(self._names(), X, outcome, of.label_free)
        self._n_selected = self._how_many(len(X), X.shape[1])
        rows = draws(patients, outcome, self.n_rounds, int(seed)) if self.n_rounds else []
        self.round_importances_, ranks, self.round_warnings_ = self._rounds(X, outcome, own, rows)
        names, membership = self._families()
        chance = self._null(X, outcome, patients, of, fitted.supervised, membership, int(null_seed))
        self._X = X
        self._tabulate(chance, ranks <= self._n_selected, names, membership)
        return self

    def plot(self, top: int = 20, ax: Any = None) -> Any:
        """Bars of the first features with their intervals, beside the t-test's and the label-free ranking."""
        from clearfold.plot import importance_bars

        check_is_fitted(self, "table_")
        return importance_bars(self, top=top, ax=ax)

    def interchangeable(self, top: int = 50, correlation: float = 0.9) -> pd.DataFrame:
        """Groups among the first features that say the same, each with its importance together."""
        check_is_fitted(self, "table_")
        return interchangeable(self.table_, self._X, top=top, correlation=correlation)

    def _get_support_mask(self) -> Any:
        check_is_fitted(self, "ranking_")
        return self.ranking_ <= self._n_selected

    def _check_parameters(self) -> None:
        if self.method not in METHODS:
            raise InputError(f"method={self.method!r} came; one of {', '.join(METHODS)} is wanted.")
        for name in ("n_rounds", "n_permutations"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 0:
                raise InputError(f"{name}={value!r} came; a whole number, 0 or more, is wanted.")
        if self.n_rounds == 1:
            raise InputError("n_rounds=1 came; stability compares rounds. Set it to 0 or to at least 2.")
        if not 0 <= self.redundancy <= 1:
            raise InputError(f"redundancy={self.redundancy!r} came; a number from 0 to 1 is wanted.")

    def _how_many(self, n: int, m: int) -> int:
        wanted = self.n_features_to_select
        if wanted is None:
            return max(1, min(n // 10, m // 2))
        if not isinstance(wanted, int | np.integer) or not 1 <= wanted <= m:
            raise InputError(f"n_features_to_select={wanted!r} came; a whole number from 1 to {m} is wanted.")
        return int(wanted)

    def _say_scales(self, X: Matrix) -> None:
        if self.standardize:
            return
        deviation = X.std(axis=0)
        deviation = deviation[deviation > 0]
        if len(deviation) and deviation.max() > 100 * np.median(deviation):
            warnings.warn(
                f"the widest feature varies {deviation.max() / np.median(deviation):.0f} times as much as the median "
                "one and will rule embedding and ranking. Set standardize=True, or bring features to one scale.",
                UnequalScalesWarning,
                stacklevel=3,
            )

    def _prepared(self, X: Matrix) -> Matrix:
        X = centred(X)
        if not (X != 0).any():
            raise InputError(
                "all features are constant: there is nothing to rank. Check that X holds features that vary."
            )
        if not self.standardize:
            return X
        deviation = X.std(axis=0)
        return np.divide(X, deviation, out=np.zeros_like(X), where=deviation > 0)

    def _loadings(self, X: Matrix, outcome: Outcome, groups: Any) -> tuple[Fitted, Loadings]:
        embedding = Isomap(n_components=5) if self.embedding is None else self.embedding
        fitted = fitted_coordinates(clone(embedding), X, outcome)
        of = loadings(fitted.coordinates, X, directions=fitted.directions, weights=fitted.weights, groups=groups)
        if of.A.shape[0] == 1 and self.method == "fine":
            warnings.warn(
                "with one coordinate the labels have no influence on the importance of features: it is the label-free "
                "one. Set n_components to at least 2.",
                LabelFreeWarning,
                stacklevel=4,
            )
        return fitted, of

    def _null(
        self, X: Matrix, outcome: Outcome, patients: Patients, of: Loadings, refit: bool, membership: Any, seed: int
    ) -> Null:
        """p-values; embeddings that saw the labels are fitted again for each permutation."""
        count = self.n_permutations
        if not count:
            return Null(np.full(X.shape[1], np.nan), np.full(membership.shape[1], np.nan))
        random = np.random.default_rng(seed)
        if not refit:
            return exceedance(
                self.importances_, permuted(of, outcome, patients, self.method, count, random), membership
            )

        def again() -> Iterator[Matrix]:
            for _ in range(count):
                other = outcome.permuted(patients.permutation(outcome, random))
                with counted_warnings():
                    yield importances(self._loadings(X, other, None)[1], other.target, self.method)[:, None]

        return exceedance(self.importances_, again(), membership)

    def _rounds(
        self, X: Matrix, outcome: Outcome, groups: Any, rows: list[Any]
    ) -> tuple[Matrix, Matrix, dict[str, int]]:
        """Importances and ranks of every round (rounds x m), and how many rounds gave each warning."""
        work = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(self._round)(X[r], outcome.take(r), None if groups is None else groups[r]) for r in rows
        )
        results = list(_tracked(work, len(rows), self.verbose))
        seen: dict[str, int] = {}
        for _, _, counts in results:
            for name in counts:
                seen[name] = seen.get(name, 0) + 1
        shape = (len(rows), X.shape[1])
        values, ranks = (
            np.array([r[0] for r in results]).reshape(shape),
            np.array([r[1] for r in results]).reshape(shape),
        )
        return values, ranks, seen

    def _round(self, X: Matrix, outcome: Outcome, groups: Any) -> tuple[Matrix, Matrix, dict[str, int]]:
        with counted_warnings() as counts:
            X = self._prepared(X)
            _, of = self._loadings(X, outcome, groups)
            share = importances(of, outcome.target, self.method)
        return share, penalised_ranking(share, X, self.redundancy), counts

    def _families(self) -> tuple[list[str], Matrix]:
        """Names of the families, and m x families with 1 where a feature belongs to one."""
        features = self._names()
        if self.families is None:
            self._family = [family(name) for name in features]
        elif isinstance(self.families, Mapping):
            missing = [name for name in features if name not in self.families]
            if missing:
                raise InputError(
                    f"no family came for {len(missing)} features ({', '.join(missing[:3])}). Name one for each."
                )
            self._family = [str(self.families[name]) for name in features]
        elif len(self.families) == len(features):
            self._family = [str(name) for name in self.families]
        else:
            raise InputError(
                f"{len(self.families)} families came for {len(features)} features. Name one for each feature."
            )
        names = list(dict.fromkeys(self._family))
        place = {name: i for i, name in enumerate(names)}
        columns = [place[name] for name in self._family]
        return names, sparse.csr_array((np.ones(len(columns)), (range(len(columns)), columns)))

    def _names(self) -> list[str]:
        return [str(name) for name in getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])]

    def _tabulate(self, chance: Null, selected: Any, families: list[str], membership: Matrix) -> None:
        import pandas as pd

        rounds = bool(len(selected))
        self.stability_: Stability | None = stability(selected) if rounds else None
        nothing = np.full(len(self.importances_), np.nan)
        low, high = interval(self.importances_, self.round_importances_) if rounds else (nothing, nothing)
        self.table_ = pd.DataFrame(
            {
                "feature": self._names(),
                "family": self._family,
                "importance": self.importances_,
                "rank": self.ranking_,
                "ci_low": low,
                "ci_high": high,
                "p_value": chance.p_value,
                "q_value": q_values(chance.p_value) if self.n_permutations else nothing,
                "selected_share": selected.mean(axis=0) if rounds else nothing,
                "fidelity": self.loadings_.fidelity,
            }
        )
        total, drawn = membership.T @ self.importances_, self.round_importances_ @ membership
        nothing = np.full(len(families), np.nan)
        low, high = interval(total, drawn) if rounds else (nothing, nothing)
        self.family_importances_ = pd.DataFrame(
            {
                "family": families,
                "n_features": np.asarray(membership.sum(axis=0)).astype(int),
                "importance": total,
                "ci_low": low,
                "ci_high": high,
                "p_value": chance.family_p_value,
                "q_value": q_values(chance.family_p_value) if self.n_permutations else nothing,
            }
        ).sort_values("importance", ascending=False, kind="stable", ignore_index=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _label_share(importance: Matrix, label_free: Matrix) -> float:
    if importance.std() == 0 or label_free.std() == 0:
        return 0.0
    return float(np.clip(1.0 - np.corrcoef(importance, label_free)[0, 1], 0.0, 1.0))


def _comparison(names: list[str], X: Matrix, outcome: Outcome, label_free: Matrix) -> pd.DataFrame:
    """Ranks by what a reader would try first; a censored time is compared by its residuals."""
    import pandas as pd

    if outcome.kind == "label":
        values = {"t": welch_t(X, outcome.codes), "gini": gini(X, outcome.codes)}
    else:
        values = {"correlation": correlation(X, outcome.target[:, 0])}
    ranks = {name: ranking(value) for name, value in {**values, "label_free": label_free}.items()}
    return pd.DataFrame({"feature": names, **ranks})


def _tracked(work: Any, total: int, verbose: bool) -> Any:
    if not verbose:
        return work
    from rich.console import Console
    from rich.progress import track

    return track(work, description="rounds", total=total, console=Console(stderr=True), transient=True)
