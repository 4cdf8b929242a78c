"""Where tests find real data and reference numbers, and what happens when they are not there."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def _folder(variable: str, name: str) -> Path:
    """The folder that an environment variable names, else the one beside the repository."""
    named = os.environ.get(variable)
    folder = Path(named) if named else ROOT.parent / "shared" / name
    if not folder.is_dir():
        reason = f"no folder {folder}: set {variable} to the folder that holds it"
        if os.environ.get("CI"):  # a gate that skips what it cannot see is no gate
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data (environment variable CLEARFOLD_DATA)."""
    return _folder("CLEARFOLD_DATA", "data")


@pytest.fixture(scope="session")
def vectors() -> Path:
    """The folder of expected numbers from an independent implementation (CLEARFOLD_VECTORS)."""
    return _folder("CLEARFOLD_VECTORS", "vectors")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses these folders, so that `-m "not data"` leaves it out."""
    for item in items:
        if {"data", "vectors"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("data")
