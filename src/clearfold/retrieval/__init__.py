"""Which earlier cases look like this one, and why? query -> place -> nearest -> hits with reasons."""

from clearfold.retrieval.asking import answer
from clearfold.retrieval.results import Answer, Hit, Reason, Reasons

__all__ = ["Answer", "Hit", "Reason", "Reasons", "answer"]
