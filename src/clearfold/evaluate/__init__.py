"""Would a colleague believe it? Rounds and measures; everything that learns, learns inside the training part."""

from clearfold.embedding.choice import residual_variance
from clearfold.evaluate.archive_figures import ArchiveEvaluation
from clearfold.evaluate.archives import evaluate_archive
from clearfold.evaluate.comparison import Comparison, compare, half
from clearfold.evaluate.measures import auc, mse
from clearfold.evaluate.protocol import Protocol, ProtocolResult, run
from clearfold.evaluate.retrieval import Retrieval, auprc, precision_at, retrieval, silhouette
from clearfold.selection import Stability, jaccard, mean_jaccard, nogueira, stability

__all__ = [
    "ArchiveEvaluation",
    "Comparison",
    "Protocol",
    "ProtocolResult",
    "Retrieval",
    "Stability",
    "auc",
    "auprc",
    "compare",
    "evaluate_archive",
    "half",
    "jaccard",
    "mean_jaccard",
    "mse",
    "nogueira",
    "precision_at",
    "residual_variance",
    "retrieval",
    "run",
    "silhouette",
    "stability",
]
