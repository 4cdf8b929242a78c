"""Measures: each with one definition, each with its chance level named."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from clearfold.errors import InputError


def auc(y: Any, value: Any) -> float:
    """Area under the ROC curve, chance .5; with many classes the mean over one against the rest (value n x classes)."""
    y, value = np.asarray(y), np.asarray(value, dtype=float)
    if value.shape[:1] != y.shape or value.ndim > 2 or not np.isfinite(value).all():
        raise InputError(f"values of shape {value.shape} came for {len(y)} labels; one finite row for each is wanted.")
    classes = np.unique(y)
    if len(classes) < 2:
        raise InputError(f"one class came ({classes[0]}); the area under the ROC curve compares two. Check the split.")
    if value.ndim == 1 or value.shape[1] == 1:
        return float(roc_auc_score(y == classes[-1], value.ravel()))
    if value.shape[1] == 2 and len(classes) == 2:
        return float(roc_auc_score(y == classes[1], value[:, 1]))
    return float(np.mean([roc_auc_score(y == label, value[:, i]) for i, label in enumerate(classes)]))


def mse(y: Any, value: Any) -> float:
    """Mean squared error; the variance of y is what the mean alone would reach."""
    y, value = np.asarray(y, dtype=float), np.asarray(value, dtype=float)
    if y.shape != value.shape or not y.size or not (np.isfinite(y).all() and np.isfinite(value).all()):
        raise InputError(f"values of shape {value.shape} came for {y.shape}; as many finite numbers are wanted.")
    with np.errstate(over="ignore"):
        result = float(np.mean(np.square(y - value)))
    if not np.isfinite(result):
        raise InputError("the squared error is larger than any number. Give the outcome in larger units.")
    return result
