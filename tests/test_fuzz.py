"""Whatever bytes come, only clearfold's own errors come out: a few hundred changed files for each reader.

The same targets as `python -m fuzz`, which is guided by coverage and runs for longer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

pytest.importorskip("fuzz", reason="the folder fuzz/ is beside tests/ in the repository only")

from clearfold.web import work
from fuzz import requests
from fuzz.targets import TARGETS, objects, quiet, table

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="targets fork, and limit memory and time as POSIX does")
SLOW = {"h5ad": 25, "hdf5": 40, "archive": 60, "model": 120, "columns": 200}
USUAL = 150


@cache
def seeds(name: str) -> list[bytes]:
    return TARGETS[name].seeds()


@pytest.fixture(autouse=True, scope="module")
def as_it_was() -> Iterator[None]:
    """Targets replace what starts processes; others want it back."""
    from clearfold.table import binary

    run, check = work.Worker.run, binary.check_hdf5
    yield
    work.Worker.run, binary.check_hdf5 = run, check  # type: ignore[method-assign]


def changed(name: str, random: Random) -> bytes:
    data = random.choice(seeds(name))
    for _ in range(random.randrange(4)):
        data = TARGETS[name].mutate(data, random)
    return data


@pytest.mark.parametrize("name", TARGETS)
def test_changed_files_give_an_answer_or_our_own_error(name: str) -> None:
    for data in seeds(name):
        quiet(TARGETS[name].read, data)
    for number in range(SLOW.get(name, USUAL)):
        data = changed(name, Random(number))
        try:
            quiet(TARGETS[name].read, data)
        except BaseException as error:  # the number is all that is needed to see it again
            raise AssertionError(f"{name} number {number}: {data[:300]!r}") from error


few = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
cells = st.one_of(
    st.text(max_size=6), st.sampled_from(["", "NA", "1", "-1.5e300", "inf", "=1", '"', "a,b", "\r", "\0"])
)


@few
@given(st.lists(st.lists(cells, min_size=1, max_size=4), min_size=1, max_size=4), st.sampled_from(",\t"), st.booleans())
def test_any_cells_between_any_separators(rows: list[list[str]], mark: str, alike: bool) -> None:
    width = len(rows[0])
    rows = [(row * width)[:width] if alike else row for row in rows]
    text = "\n".join(mark.join(row) for row in rows)
    quiet(lambda data: table(data, ".csv" if mark == "," else ".tsv"), text.encode("utf-8", "surrogatepass"))


@few
@given(st.binary(max_size=300), st.sampled_from(sorted(TARGETS)))
def test_any_bytes_at_all(data: bytes, name: str) -> None:
    if name not in SLOW:
        quiet(TARGETS[name].read, data)


words = st.sampled_from(["type", "features", "geometry", "coordinates", "properties", "nuc", "mag", "contour", "rows"])
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@few
@given(trees)
def test_any_json_as_outlines(tree: Any) -> None:
    quiet(lambda data: objects(data, ".geojson"), json.dumps(tree).encode())


@few
@given(trees)
def test_any_json_as_a_body(tree: Any) -> None:
    for path in ("/api/v1/map/group", "/api/v1/queries", "/api/v1/slide/heat"):
        quiet(requests.send, json.dumps({"method": "POST", "path": path, "body": tree}).encode())


def test_the_api_keeps_to_its_own_description() -> None:
    """Requests that schemathesis draws from the description: none is answered by an error of the server."""
    schemathesis = pytest.importorskip("schemathesis")
    described = requests.application().app.openapi()
    schema = schemathesis.openapi.from_dict(described)
    count = 0

    def sent(case: Any) -> None:
        nonlocal count
        path = case.formatted_path
        query = [[name, value] for name, given in (case.query or {}).items() for value in _listed(given)]
        body = None if type(case.body).__name__ == "NotSet" else case.body
        status, _ = requests.call({"method": case.method, "path": path, "query": query, "body": body})
        assert status < 500 or status in (501, 503, 504), (case.method, path, query, body)
        count += 1

    for found in schema.get_all_operations():
        operation = found.ok()
        drawn = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        drawn(given(case=operation.as_strategy())(sent))()
    assert count >= 10 * len(described["paths"]) / 2


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_a_reader_that_forgets_an_error_is_found() -> None:
    """The targets themselves are able to fail."""
    with pytest.raises(ZeroDivisionError):
        quiet(lambda data: 1 // len(data[:0]), b"x")
    assert all(seeds(name) for name in TARGETS)
