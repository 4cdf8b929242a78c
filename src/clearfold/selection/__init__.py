"""Filters to compare with, how stable a selection is, and a selector for pipelines.

A filter gives one value for each feature, finite and never negative: larger is better, a constant one gets 0.
X is an array, a DataFrame or a sparse matrix (made dense block by block); y a label for each row.
Rows labelled -1 are unlabelled and left out, unless -1 is one of only two labels and so has to be a class.
A y with fractions is an outcome: `correlation`, `mrmr` and `forest` take one.
"""

from clearfold.selection.filters import (
    FILTERS,
    OUTCOME_FILTERS,
    correlation,
    fisher,
    fisher_general,
    forest,
    gini,
    mrmr,
    ranking,
    t_pooled,
    welch_t,
)
from clearfold.selection.selector import FilterSelector
from clearfold.selection.stability import (
    Stability,
    jaccard,
    jaccard_matrix,
    mean_jaccard,
    nogueira,
    nogueira_interval,
    stability,
)

__all__ = [
    "FILTERS",
    "OUTCOME_FILTERS",
    "FilterSelector",
    "Stability",
    "correlation",
    "fisher",
    "fisher_general",
    "forest",
    "gini",
    "jaccard",
    "jaccard_matrix",
    "mean_jaccard",
    "mrmr",
    "nogueira",
    "nogueira_interval",
    "ranking",
    "stability",
    "t_pooled",
    "welch_t",
]
