"""A filter as a step of a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from clearfold.errors import InputError
from clearfold.selection.columns import Values
from clearfold.selection.filters import FILTERS, OUTCOME_FILTERS, Labels, Table, checked, ranking


class FilterSelector(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Keeps the `n_features_to_select` features of largest filter value.

    `filter` is a name in `FILTERS` or `OUTCOME_FILTERS`; `random_state` serves the forest. After `fit`:
    `importances_` (they sum to 1; all 0 if every feature is constant), `ranking_` (1 is best), `support_`.
    """

    def __init__(
        self,
        *,
        filter: str = "t",
        n_features_to_select: int = 10,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.filter = filter
        self.n_features_to_select = n_features_to_select
        self.random_state = random_state

    def fit(self, X: Table, y: Labels) -> FilterSelector:
        """Learn which features to keep."""
        X, y = checked(X, y, self)
        values = self._filter()(X, y)
        self.importances_ = values / (values.sum() or 1.0)
        self.ranking_ = ranking(values)
        self.support_ = self.ranking_ <= self.n_features_to_select
        return self

    def _filter(self) -> Callable[..., Values]:
        known = FILTERS | OUTCOME_FILTERS
        if self.filter not in known:
            raise InputError(f"filter is {self.filter!r}; wanted one of {', '.join(known)}")
        k, m = self.n_features_to_select, self.n_features_in_
        if not isinstance(k, int | np.integer) or not 1 <= k <= m:
            raise InputError(f"n_features_to_select is {k!r} and X has {m} feature(s); wanted 1 to {m}: lower it")
        options: dict[str, dict[str, Any]] = {
            "mrmr": {"n_features": k},
            "forest": {"random_state": self.random_state},
        }
        return partial(known[self.filter], **options.get(self.filter, {}))

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags
