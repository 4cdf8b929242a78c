"""The estimator: which original features drive the embedding, and can that be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from clearfold.embedding import Isomap
from clearfold.embedding.spectral import Matrix
from clearfold.embedding.threads import few_threads
from clearfold.errors import InputError, UnequalScalesWarning, warn
from clearfold.importance.coordinates import checked_features
from clearfold.importance.formula import METHODS, importances
from clearfold.importance.outcome import read_outcome
from clearfold.importance.ranker import Ranker
from clearfold.importance.redundancy import interchangeable, penalised_ranking
from clearfold.importance.rounds import Null, draws, read_patients
from clearfold.importance.tables import Families, comparison, read_families, share_columns
from clearfold.selection import Stability, stability

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
    'worst perimeter'
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
        with few_threads(len(X)):
            self._rank(X, y, groups)
        return self

    def _rank(self, X: Matrix, y: Any, groups: Any) -> None:
        features = [str(name) for name in getattr(self, "feature_names_in_", [f"x{i}" for i in range(X.shape[1])])]
        families, n_selected = read_families(self.families, features), self._how_many(*X.shape)
        outcome = read_outcome(y, len(X), self.outcome)
        patients = read_patients(groups, outcome, len(X))
        seed, null_seed = check_random_state(self.random_state).randint(2**31, size=2)
        rows = draws(patients, outcome, self.n_rounds, int(seed)) if self.n_rounds else []
        ranker = Ranker(self._embedding(), self.method, self.standardize, self.redundancy)
        raw, X, own = X, ranker.prepared(X), None if groups is None else patients.codes
        self._say_scales(raw)
        fitted, of = ranker.read(X, outcome, own)
        share = importances(of, outcome.target, self.method)
        done = list(_tracked(ranker.rounds(X, outcome, own, rows, self.n_jobs), len(rows), self.verbose))
        chance = Null(np.full(len(share), np.nan), np.full(len(families.names), np.nan))
        if self.n_permutations:
            chance = ranker.null(X, outcome, patients, own, families.membership, self.n_permutations, int(null_seed))
        self._X, self._n_selected, self._outcome_kind = X, n_selected, outcome.kind
        self.embedding_, self.loadings_, self.label_free_ = fitted.estimator, of, of.label_free
        self.importances_, self.ranking_ = share, penalised_ranking(share, X, self.redundancy)
        self.label_share_ = _label_share(share, of.label_free)
        self.comparison_ = comparison(features, X, outcome, of.label_free)
        self._tabulate(features, families, chance, done)

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
        if not isinstance(self.redundancy, int | float | np.number) or not 0 <= self.redundancy <= 1:
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
            times = deviation.max() / max(float(np.median(deviation)), 1e-160)
            warn(
                f"the widest feature varies {times:.0f} times as much as the median one and will rule embedding "
                "and ranking. Set standardize=True, or bring features to one scale.",
                UnequalScalesWarning,
            )

    def _embedding(self) -> Any:
        if self.embedding is None:
            return Isomap(n_components=5)
        if not hasattr(self.embedding, "fit"):
            raise InputError(
                f"embedding={self.embedding!r} came; an embedding is wanted, for instance Isomap(n_components=5)."
            )
        return self.embedding

    def _tabulate(self, features: list[str], families: Families, chance: Null, done: list[Any]) -> None:
        import pandas as pd

        shape = (len(done), len(features))
        self.round_importances_ = np.array([one[0] for one in done]).reshape(shape)
        selected = np.array([one[1] for one in done]).reshape(shape) <= self._n_selected
        self.round_warnings_ = dict(Counter(name for one in done for name in one[2]))
        self.stability_: Stability | None = stability(selected) if done else None
        columns = share_columns(self.importances_, self.round_importances_, chance.p_value)
        self.table_ = pd.DataFrame({"feature": features, "family": families.of_feature, **columns})
        self.table_.insert(3, "rank", self.ranking_)
        self.table_["selected_share"] = selected.mean(axis=0) if done else np.nan
        self.table_["fidelity"] = self.loadings_.fidelity
        total, drawn = families.membership.T @ self.importances_, self.round_importances_ @ families.membership
        sizes = np.asarray(families.membership.sum(axis=0)).astype(int)
        columns = share_columns(total, drawn, chance.family_p_value)
        self.family_importances_ = pd.DataFrame({"family": families.names, "n_features": sizes, **columns}).sort_values(
            "importance", ascending=False, kind="stable", ignore_index=True
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _label_share(importance: Matrix, label_free: Matrix) -> float:
    if importance.std() == 0 or label_free.std() == 0:
        return 0.0
    return float(np.clip(1.0 - np.corrcoef(importance, label_free)[0, 1], 0.0, 1.0))


def _tracked(work: Any, total: int, verbose: bool) -> Any:
    if not verbose:
        return work
    from rich.console import Console
    from rich.progress import track

    screen = Console(stderr=True)
    return track(work, "rounds", total, console=screen, transient=True, disable=not screen.is_terminal)
