"""Measures: each with one definition, each with its chance level named."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from clearfold.embedding.spectral import Matrix
from clearfold.errors import InputError


def auc(y: Any, value: Any) -> float:
    """Area under the ROC curve, chance .5; with many classes the mean over one against the rest (value n x classes)."""
    y, value = np.asarray(y), np.asarray(value, dtype=float)
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
    difference: Matrix = np.asarray(y, dtype=float) - np.asarray(value, dtype=float)
    return float(np.mean(np.square(difference)))
