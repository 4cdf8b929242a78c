"""Which features decide in which region: random Voronoi ensembles and graded possibilistic clustering."""

from clearfold.errors import FewDistinctCellsWarning, NothingAboveNullWarning
from clearfold.saliency.estimator import VoronoiSaliency
from clearfold.saliency.possibilistic import GradedPossibilisticClustering, annealing_schedule, log_memberships

__all__ = [
    "FewDistinctCellsWarning",
    "GradedPossibilisticClustering",
    "NothingAboveNullWarning",
    "VoronoiSaliency",
    "annealing_schedule",
    "log_memberships",
]
