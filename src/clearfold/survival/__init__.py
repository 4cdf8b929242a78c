"""Survival: do patients of high risk fare worse, when the risk was made by a model that had not seen them?

risk_groups(X, time, event, groups=patient)   risk out of fold, groups cut in the training part, curves, measures
kaplan_meier(time, event, group)              curves and measures of groups that were known beforehand
CoxRisk                                       the risk model: features by importance, or coordinates; ridge Cox
"""

from clearfold.survival.cox import CoxRisk, ridge_cox
from clearfold.survival.curves import KaplanMeier, kaplan_meier, log_rank_z
from clearfold.survival.groups import RiskGroups, risk_groups
from clearfold.survival.measures import Interval, concordance

__all__ = [
    "CoxRisk",
    "Interval",
    "KaplanMeier",
    "RiskGroups",
    "concordance",
    "kaplan_meier",
    "log_rank_z",
    "ridge_cox",
    "risk_groups",
]
