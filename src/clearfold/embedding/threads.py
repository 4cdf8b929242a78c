"""Threads of linear algebra: on small matrices one is faster than many, and far faster on a machine that is busy."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

SMALL = 2000
"""Up to this number of samples one thread is used."""


def few_threads(n_samples: int) -> AbstractContextManager[Any]:
    """One thread for linear algebra inside this context if samples are few, else as many as are set."""
    return _controller().limit(limits=1, user_api="blas") if n_samples <= SMALL else nullcontext()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
