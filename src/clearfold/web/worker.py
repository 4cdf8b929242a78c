"""The child process: decodes and measures what came from outside, one task at a time.

A line of JSON comes in, lines of JSON go out: progress, then a result or an error. Nothing is unpickled on either side,
so an image that takes over a decoder has taken over a process without the archive, and that process is killed when its
time is over.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import warnings
from typing import Any, TextIO

TASKS = {
    "ready": "clearfold.web.tasks.images:ready",
    "measure": "clearfold.web.tasks.images:measure",
    "nuclei": "clearfold.web.tasks.images:nuclei",
    "heat": "clearfold.web.tasks.images:heat",
    "importance": "clearfold.web.tasks.archives:importance",
    "saliency": "clearfold.web.tasks.archives:saliency",
    "evidence": "clearfold.web.tasks.archives:evidence",
    "survival": "clearfold.web.tasks.archives:survival",
}


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not come between the answers
    _limit_memory(int(sys.argv[1]))
    if hasattr(os, "nice"):
        os.nice(5)  # pages come first
    for line in sys.stdin:
        asked = json.loads(line)
        _say(answers, _answer(asked["task"], asked["arguments"], answers))


def _answer(task: str, arguments: dict[str, Any], answers: TextIO) -> dict[str, Any]:
    from clearfold.errors import ClearfoldError, ClearfoldWarning, MissingExtraError
    from clearfold.web.tasks import Unusable

    def report(progress: float | None, message: str) -> None:
        _say(answers, {"progress": progress, "message": message})

    module, name = TASKS[task].split(":")
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", ClearfoldWarning)
            found = getattr(importlib.import_module(module), name)(report, **arguments)
        notes = list(dict.fromkeys(str(one.message) for one in said))
        return {"result": {**found, "warnings": notes}}
    except Unusable as error:
        return _error(error.status, str(error))
    except MissingExtraError as error:
        return _error(501, str(error))
    except ClearfoldError as error:
        return _error(422, str(error))
    except MemoryError:
        return _error(413, "It needs more memory than the server gives to one image. Send a smaller one.")
    except Exception as error:
        return _error(500, f"It could not be worked out ({type(error).__name__}: {error}).")


def _error(status: int, message: str) -> dict[str, Any]:
    return {"error": {"status": status, "message": message}}


def _say(answers: TextIO, what: dict[str, Any]) -> None:
    from clearfold.web.answers import plain

    answers.write(json.dumps(plain(what), allow_nan=False) + "\n")
    answers.flush()


def _limit_memory(most: int) -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limit: pixels are bounded there
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        main()
