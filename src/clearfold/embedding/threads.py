"""Threads of linear algebra: on small matrices one is faster than many, and far faster on a machine that is busy."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import current_thread, main_thread
from typing import Any

from threadpoolctl import ThreadpoolController

SMALL = 2000
"""Up to this number of samples one thread is used."""


def few_threads(n_samples: int) -> AbstractContextManager[Any]:
    """One thread for linear algebra inside this context if samples are few, else as many as are set.

    The number belongs to the whole process: only its main thread changes it, or two might set back what the other set.
    """
    if n_samples > SMALL or current_thread() is not main_thread():
        return nullcontext()
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
