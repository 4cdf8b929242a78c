"""A whole study of a feature table: map, ranking, stability against accuracy, survival and searches, in one object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearfold.cli.methods import matrix
from clearfold.cli.question import Question
from clearfold.cli.ranking_page import Comparison, comparison
from clearfold.cli.search_page import Search, example_searches
from clearfold.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.archive import Archive
    from clearfold.embedding.choice import ResidualVariance
    from clearfold.evaluate import ProtocolResult
    from clearfold.survival import RiskGroups

MOST_COORDINATES = 20
FOLDS = 5
QUICK_ROUNDS, QUICK_PERMUTATIONS = 10, 200
SHORT = {
    "PCA": "PCA",
    "KernelPCA": "KPCA",
    "Isomap": "Isomap",
    "LaplacianEigenmap": "LE",
    "LocallyLinearEmbedding": "LLE",
    "GraphEmbedding": "GE",
}
"""Names of embeddings in a drawing."""


@dataclass(frozen=True)
class Settings:
    """How much is computed; `quick` lowers what the other numbers ask for."""

    embedding: Any
    rounds: int = 50
    permutations: int = 1000
    seed: int = 0
    jobs: int | None = None
    quick: bool = False
    top: int = 20

    @property
    def n_rounds(self) -> int:
        """Rounds of patients."""
        return min(self.rounds, QUICK_ROUNDS) if self.quick else self.rounds

    @property
    def n_permutations(self) -> int:
        """Shuffled labels of the ranking."""
        return min(self.permutations, QUICK_PERMUTATIONS) if self.quick else self.permutations

    @property
    def n_survival(self) -> int:
        """Dealt outcomes of the survival groups: each learns everything again, so these are few."""
        return min(self.permutations, 19 if self.quick else 99)

    @property
    def classifiers(self) -> tuple[str, ...]:
        """What judges the selected features."""
        return ("logistic",) if self.quick else ("logistic", "svm", "forest")


@dataclass(frozen=True)
class Tradeoff:
    """How well features of each ranking predict left-out patients, and how far rounds agree on them.

    table : DataFrame method, classifier, AUC (or MSE), low, high, J, J low, J high; result : every round
    """

    table: pd.DataFrame
    chance: float
    n_selected: int
    result: ProtocolResult

    @property
    def measure(self) -> str:
        """AUC for labels, MSE for values."""
        return str(self.table.columns[2])


@dataclass(frozen=True)
class Study:
    """Everything that the report of a table shows; a part that was not asked for, or cannot be, is None."""

    question: Question
    timed: Question | None
    settings: Settings
    ranked: Any
    pca: Any
    curve: ResidualVariance
    others: Comparison
    tradeoff: Tradeoff | None
    why_no_tradeoff: str
    survival: RiskGroups | None
    searches: tuple[Search, ...] = ()


def make_study(
    question: Question,
    timed: Question | None,
    settings: Settings,
    archive: Archive | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Study:
    """Compute every part; what can fail early comes first. `say` is told what is being done."""
    from clearfold import EmbeddingImportance
    from clearfold.embedding import PCA, residual_variance

    X = matrix(question.cases, raw=True)
    searches = () if archive is None else tuple(_searches(archive, question, settings.seed))
    say("survival: groups of risk, out of fold")
    survival = None if timed is None else _survival(timed, settings)
    say("embedding, ranking and rounds of patients")
    scaled = matrix(question.cases, raw=False)
    curve = residual_variance(settings.embedding, scaled, MOST_COORDINATES)
    ranked = EmbeddingImportance(
        embedding=settings.embedding,
        n_rounds=settings.n_rounds,
        n_permutations=settings.n_permutations,
        families=question.cases.families,
        n_jobs=settings.jobs,
        random_state=settings.seed,
    ).fit(X, question.y, groups=question.cases.groups)
    h = min(ranked.embedding_.embedding_.shape[1], *X.shape)
    say("stability against accuracy")
    tradeoff, why_not = _tradeoff(X, question, settings, ranked)
    say("ranking under five embeddings")
    return Study(
        question,
        timed,
        settings,
        ranked,
        PCA(n_components=max(1, min(2, h))).fit(scaled.to_numpy()),
        curve,
        comparison(X, question, "auto", settings.top),
        tradeoff,
        why_not,
        survival,
        searches,
    )


def tradeoff(X: pd.DataFrame, question: Question, settings: Settings, n_selected: int) -> Tradeoff:
    """Rounds of three quarters of the patients: select on them, predict the others (FINE Fig. 3).

    Scaling, embedding, its number of coordinates, ranking, selection and classifier learn from the drawn patients
    alone, and all rows of a patient are either drawn or left out.
    """
    from sklearn.base import clone

    from clearfold.embedding import PCA
    from clearfold.evaluate import Protocol, run
    from clearfold.papers.rounds import figure_3

    own = {SHORT[type(settings.embedding).__name__]: settings.embedding}
    h = settings.embedding.n_components
    h = h if isinstance(h, str) else min(h, X.shape[1])
    beside = {} if "PCA" in own else {"PCA": PCA(n_components=h)}
    protocol = Protocol(
        embeddings={name: clone(one) for name, one in (own | beside).items()},
        filters=("t", "fisher", "gini") if question.kind == "label" else ("correlation", "mrmr", "forest"),
        classifiers=settings.classifiers if question.kind == "label" else _regressors(settings.classifiers),
        n_rounds=settings.n_rounds,
        n_selected=n_selected,
    )
    result = run(X, question.y, protocol, groups=question.cases.groups, n_jobs=settings.jobs, seed=settings.seed)
    table = figure_3(result)
    ends = ["J low", "J high", *(["low", "high"] if question.kind == "label" else [])]
    table[ends] = table[ends].clip(0.0, 1.0)  # few rounds make wide intervals, but no AUC is above 1
    return Tradeoff(table, float(result.stability["jaccard_chance"].mean()), n_selected, result)


def _regressors(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("linear" if name == "logistic" else name for name in names)


def _tradeoff(X: Any, question: Question, settings: Settings, ranked: Any) -> tuple[Tradeoff | None, str]:
    if question.kind == "censored":
        return (
            None,
            "The outcome is a censored time, which has no AUC. Survival, below, judges the features out of fold.",
        )
    if ranked.stability_ is None:
        return None, "No rounds were asked for, so nothing is known of stability and accuracy."
    try:
        return tradeoff(X, question, settings, int(ranked.stability_.n_selected)), ""
    except InputError as error:
        return None, f"Rounds could not be judged: {error}"


def _survival(timed: Question, settings: Settings) -> RiskGroups:
    """Groups of risk from the features that lead on the same embedding, learned out of fold."""
    from clearfold.survival import CoxRisk, risk_groups

    X, time, event = matrix(timed.cases, raw=True), timed.y["time"], timed.y["event"]
    patients = timed.cases.groups
    first = timed.cases.frame.index if patients is None else patients.drop_duplicates().index
    folds = min(FOLDS, int(event.loc[first].sum()))
    if folds < 2:
        raise InputError(f"{folds} patients had the event; groups of risk want two or more. Check --event and --group.")
    return risk_groups(
        X,
        time,
        event,
        estimator=CoxRisk(embedding=settings.embedding),
        groups=patients,
        n_folds=folds,
        n_permutations=settings.n_survival,
        n_jobs=settings.jobs,
        random_state=settings.seed,
    )


def _searches(archive: Archive, question: Question, seed: int) -> list[Search]:
    names = question.cases.role("case_id")
    return example_searches(archive, () if names is None else list(names), seed)
