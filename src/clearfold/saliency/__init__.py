"""Which features decide in which region: random Voronoi ensembles and graded possibilistic clustering."""

from clearfold.saliency.estimator import VoronoiSaliency
from clearfold.saliency.possibilistic import GradedPossibilisticClustering, annealing_schedule, log_memberships
from clearfold.saliency.trust import FewDistinctCellsWarning, NothingAboveNullWarning

__all__ = [
    "FewDistinctCellsWarning",
    "GradedPossibilisticClustering",
    "NothingAboveNullWarning",
    "VoronoiSaliency",
    "annealing_schedule",
    "log_memberships",
]
