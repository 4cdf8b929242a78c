"""Which original features put each case where it lies, and can that be trusted?"""

from clearfold.importance.after import Agreement, agreement, fine_importance
from clearfold.importance.estimator import EmbeddingImportance
from clearfold.importance.outcome import martingale_residuals

__all__ = ["Agreement", "EmbeddingImportance", "agreement", "fine_importance", "martingale_residuals"]
