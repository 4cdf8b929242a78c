"""Would a colleague believe it? Rounds and measures; everything that learns, learns inside the training part."""

from clearfold.embedding.choice import residual_variance
from clearfold.evaluate.measures import auc, mse
from clearfold.evaluate.protocol import Protocol, ProtocolResult, run
from clearfold.selection import Stability, jaccard, mean_jaccard, nogueira, stability

__all__ = [
    "Protocol",
    "ProtocolResult",
    "Stability",
    "auc",
    "jaccard",
    "mean_jaccard",
    "mse",
    "nogueira",
    "residual_variance",
    "run",
    "stability",
]
