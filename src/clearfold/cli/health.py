"""What `clearfold doctor` looks at. A check never raises: what goes wrong is what it is there to tell."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OLDEST = (3, 11)
GIGABYTE = 2**30
WAIT_S = 5
"""How long a server may take to answer."""

CORE = {
    "joblib": "joblib",
    "matplotlib": "matplotlib",
    "numpy": "numpy",
    "pandas": "pandas",
    "pillow": "PIL",
    "pyarrow": "pyarrow",
    "rich": "rich",
    "scikit-learn": "sklearn",
    "scipy": "scipy",
    "threadpoolctl": "threadpoolctl",
    "typer": "typer",
}
EXTRAS = {
    "images": {
        "numba": "numba",
        "openslide-bin": "openslide_bin",
        "openslide-python": "openslide",
        "scikit-image": "skimage",
        "shapely": "shapely",
        "tifffile": "tifffile",
    },
    "archive": {"apsw": "apsw", "faiss-cpu": "faiss"},
    "postgres": {"psycopg": "psycopg"},
    "web": {
        "fastapi": "fastapi",
        "jinja2": "jinja2",
        "plotly": "plotly",
        "python-multipart": "python_multipart",
        "uvicorn": "uvicorn",
    },
    "survival": {"lifelines": "lifelines"},
    "anndata": {"anndata": "anndata", "h5py": "h5py"},
    "cluster": {"distributed": "distributed"},
}
"""Extra -> what it installs -> what is imported; a test holds both against pyproject.toml."""
ALSO = {"psycopg": ("psycopg_binary", "psycopg_pool")}
"""What `psycopg[binary,pool]` brings besides."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    state : `works`, `missing`, `broken`, or `note` for what is neither good nor bad
    remedy : what to type or to do, where there is something to do
    """

    part: str
    name: str
    state: str
    about: str
    remedy: str = ""


def guarded(part: str, name: str, look: Callable[[], str], remedy: str = "", good: str = "works") -> Check:
    """`works` (or another word for good) with what `look` says, or `broken` with what it raised."""
    try:
        return Check(part, name, good, look())
    except Exception as error:  # whatever a broken installation raises
        text = " ".join(str(error).split()) or "no reason given"
        return Check(part, name, "broken", f"{type(error).__name__}: {text}", remedy)


# Libraries ---------------------------------------------------------------------------------------------------


def python() -> Check:
    """The interpreter, old enough or not."""
    about = f"{platform.python_version()} at {sys.executable}, {platform.platform()}"
    if sys.version_info < OLDEST:
        return Check("core", "python", "broken", about, f"install Python {OLDEST[0]}.{OLDEST[1]} or newer")
    return Check("core", "python", "works", about)


def clearfold() -> Check:
    """The package itself."""
    from clearfold import __file__ as home
    from clearfold import __version__

    return Check("core", "clearfold", "works", f"{__version__} at {Path(home).parent}")


def libraries() -> Iterator[Check]:
    """Every library of the core and of the extras: there or not, importable or not, new enough or not."""
    least = minimums()
    for part, wanted in {"core": CORE, **EXTRAS}.items():
        command = "pip install clearfold" if part == "core" else f'pip install "clearfold[{part}]"'
        for name, module in wanted.items():
            yield library(part, name, module, least.get(name, ""), command)


def library(part: str, name: str, module: str, least: str, command: str) -> Check:
    """One library."""
    absent = [needed for needed in (module, *ALSO.get(name, ())) if not there(needed)]
    if absent:
        state = "broken" if part == "core" or absent[0] != module else "missing"
        return Check(part, name, state, f"{absent[0]} is not installed", command)
    found = guarded(part, name, lambda: _imported(name, module), f"{command} --upgrade --force-reinstall")
    if found.state == "works" and numbers(found.about) < numbers(least):
        return Check(part, name, "broken", f"{found.about} is too old: {least} is wanted", f"{command} --upgrade")
    return found


def there(module: str) -> bool:
    """Whether Python finds the module; it is not imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _imported(name: str, module: str) -> str:
    found = importlib.import_module(module)
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(found, "__version__", "of unknown version"))


def minimums() -> dict[str, str]:
    """Library -> the oldest version that clearfold was declared with; empty where it was not installed by pip."""
    try:
        required = importlib.metadata.requires("clearfold") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found = (re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*>=\s*([\d.]+)", line) for line in required)
    return {match[1].lower(): match[2] for match in found if match}


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers that can be compared; nothing is older than everything."""
    found = re.match(r"[\d.]*", version)
    return tuple(int(part) for part in found[0].split(".") if part) if found else ()


# Do they work? -----------------------------------------------------------------------------------------------


def at_work() -> Iterator[Check]:
    """Libraries with machine code of their own: a tiny task for each that is installed."""
    tasks = {
        "OpenSlide": ("images", "openslide", openslide),
        "compiled kernels": ("images", "numba", kernels),
        "SQLite": ("archive", "apsw", sqlite),
        "neighbour search": ("archive", "faiss", faiss),
    }
    for name, (part, module, task) in tasks.items():
        if there(module):
            yield guarded(part, name, task, f'pip install "clearfold[{part}]" --upgrade --force-reinstall')


def openslide() -> str:
    """The C library loads."""
    import openslide

    return f"library {openslide.__library_version__}"


def kernels() -> str:
    """numba compiles, and keeps what it compiled in a folder that can be written to."""
    import numba

    from clearfold.compiled import compiled
    from clearfold.features.kernels import harmonics

    if numba.njit("int64(int64)")(_next)(1) != 2:
        raise ArithmeticError("1 + 1 is not 2 in compiled code")
    if os.environ.get("CLEARFOLD_NUMBA", "1") == "0":
        return "numba compiles, but CLEARFOLD_NUMBA=0 chooses the slower numpy paths"
    kernel: Any = compiled(harmonics)
    if kernel is None:
        return "numba compiles, but no folder can keep the result: the slower numpy paths are used; set NUMBA_CACHE_DIR"
    return f"numba compiles; kept in {kernel.stats.cache_path}"


def _next(number: int) -> int:
    return number + 1


def sqlite() -> str:
    """A database in memory answers."""
    import apsw

    with apsw.Connection(":memory:") as connection:
        connection.execute("SELECT 1").fetchall()
    return f"{apsw.sqlite_lib_version()}, through apsw"


def faiss() -> str:
    """The nearest of three points is found."""
    import faiss
    import numpy as np

    index = faiss.IndexFlatL2(2)
    index.add(np.array([[0, 0], [1, 1], [5, 5]], dtype=np.float32))
    if index.search(np.array([[0.9, 0.9]], dtype=np.float32), 1)[1].item() != 1:
        raise ArithmeticError("faiss found another neighbour than the nearest")
    return f"faiss {faiss.__version__} finds the nearest"


# The machine -------------------------------------------------------------------------------------------------


def machine() -> Iterator[Check]:
    """Linear algebra, cores, memory and disk."""
    if there("threadpoolctl") and there("scipy"):
        yield guarded("machine", "linear algebra", linear_algebra, good="note")
    yield guarded("machine", "cores", cores, good="note")
    yield guarded("machine", "memory", memory, good="note")
    yield guarded("machine", "free disk", disk, good="note")


def linear_algebra() -> str:
    """The BLAS that numpy and scipy call, and how many threads it takes."""
    import scipy.linalg  # noqa: F401 - loads the BLAS that is asked about
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    names = {f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads" for pool in pools}
    limit = os.environ.get("OMP_NUM_THREADS")
    return "; ".join(sorted(names) or ["unknown"]) + (f"; OMP_NUM_THREADS={limit}" if limit else "")


def cores() -> str:
    """What this process may use, of what the machine has."""
    have = os.cpu_count() or 1
    may = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else have
    return f"{may} of {have}"


def memory() -> str:
    """Free and total memory where the system tells it."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        free, total = (int(lines[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal"))
    except (OSError, KeyError, ValueError):
        return "this system does not tell it"
    return f"{_gigabytes(free)} free of {_gigabytes(total)}"


def disk() -> str:
    """What is free where commands write by default."""
    return f"{_gigabytes(shutil.disk_usage('.').free)} in {Path.cwd()}"


def _gigabytes(size: float) -> str:
    return f"{size / GIGABYTE:.1f} GB"
