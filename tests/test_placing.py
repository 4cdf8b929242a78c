"""A table larger than memory is placed as one in memory would be, whatever the chunks, and after a stop."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from clearfold.cli import app
from clearfold.embedding import PCA, Isomap, LandmarkEmbedding, placing
from clearfold.embedding.placing import Placing, place_table
from clearfold.errors import InputError, TableError
from clearfold.table.stream import open_stream


def table(n: int, seed: int = 0) -> pd.DataFrame:
    """A bent sheet in six features, with ids, a label that is now and then unknown, and a text."""
    random = np.random.default_rng(seed)
    t = random.random((n, 2))
    X = np.sin(2 * t @ random.normal(size=(2, 6))) * [1, 2, 3, 10, 50, 100] + 0.01 * random.normal(size=(n, 6))
    about = pd.DataFrame({"case_id": [f"c{row}" for row in range(n)], "note": "text"})
    about["label"] = np.where(t[:, 0] > 0.5, "a", "b")
    about.loc[: n // 3, "label"] = None  # whole chunks without one
    return pd.concat([about, pd.DataFrame(X, columns=[f"shape.f{i}" for i in range(6)])], axis=1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    table(900).to_parquet(tmp_path / "rows.parquet", index=False, row_group_size=350)
    return tmp_path / "rows.parquet"


# Reading ---------------------------------------------------------------------------------------------------


@given(rows=st.integers(1, 60), group=st.integers(1, 60), n=st.integers(1, 90))
@settings(max_examples=15, deadline=None)
def test_spans_are_the_file_in_its_order(
    tmp_path_factory: pytest.TempPathFactory, rows: int, group: int, n: int
) -> None:
    path, whole = tmp_path_factory.mktemp("spans") / "rows.parquet", table(n)
    whole.to_parquet(path, index=False, row_group_size=group)
    stream = open_stream(path)
    spans = stream.spans(rows)
    parts = [stream.read(span) for span in spans]
    assert max(len(X) for X, _ in parts) <= rows
    assert [span.first for span in spans] == np.cumsum([0, *(len(X) for X, _ in parts[:-1])]).tolist()
    np.testing.assert_array_equal(np.concatenate([X for X, _ in parts]), whole[stream.features].to_numpy())
    assert [name for _, about in parts for name in about["case_id"].to_pylist()] == whole["case_id"].tolist()


def test_columns_have_the_roles_that_a_table_in_memory_gives(source: Path) -> None:
    stream = open_stream(source, ignore=["shape.f0"])
    assert stream.roles == {"case_id": "case_id", "label": "label"}
    assert stream.features == [f"shape.f{i}" for i in range(1, 6)]
    assert stream.ignored == {"shape.f0": "as asked", "note": "text"}


def test_whole_numbers_truth_values_and_an_index_are_read(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a.whole": [1, 2, 3], "a.truth": [True, False, True]}, index=[7, 8, 9])
    frame.to_parquet(tmp_path / "rows.parquet")
    stream = open_stream(tmp_path / "rows.parquet")
    assert stream.ignored == {"__index_level_0__": "the index"}
    np.testing.assert_array_equal(stream.read(stream.spans(9)[0])[0], [[1, 1], [2, 0], [3, 1]])


@pytest.mark.parametrize(("value", "said"), [(np.nan, "1 missing value in shape.f2"), (np.inf, "1 infinite value")])
def test_a_value_that_cannot_be_used_is_found_wherever_it_is(tmp_path: Path, value: float, said: str) -> None:
    frame = table(2500)
    frame.loc[2300, "shape.f2"] = value
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(TableError, match=rf"{said}.*rows 2000 to 2499"):
        place_table(open_stream(tmp_path / "rows.parquet"), tmp_path / "out.parquet", Placing(chunk_rows=1000))
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize("name", ["rows.csv", "none.parquet", "damaged.parquet"])
def test_a_file_that_cannot_be_read_by_parts_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(TableError, match=name):
        open_stream(tmp_path / name)


# Placing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("embedding", [Isomap(n_neighbors=8), PCA(n_components=3)], ids=["isomap", "pca"])
def test_coordinates_are_those_of_the_table_in_memory(source: Path, embedding: object) -> None:
    output = source.with_name("out.parquet")
    how = Placing(embedding, n_landmarks=120, chunk_rows=100)
    placed = place_table(open_stream(source), output, how, n_jobs=2 if isinstance(embedding, PCA) else None)
    frame = pd.read_parquet(source)
    X = StandardScaler().fit_transform(frame.filter(like="shape."))
    whole = LandmarkEmbedding(embedding=embedding, n_landmarks=120, random_state=0).fit(X)
    found = pd.read_parquet(output)
    assert list(found.columns[:2]) == ["case_id", "label"]
    pd.testing.assert_frame_equal(found[["case_id", "label"]], frame[["case_id", "label"]])
    scale = np.abs(whole.embedding_).max()
    np.testing.assert_allclose(found.filter(like="coordinate_"), whole.embedding_, atol=1e-9 * scale)
    assert (placed.n_rows, placed.constant, placed.reused) == (900, 0, 0)
    assert not source.with_name(".out.parquet.parts").exists()


def test_chunks_have_no_part_in_the_result(source: Path) -> None:
    found = []
    for rows in (37, 350, 5000):
        output = source.with_name(f"{rows}.parquet")
        place_table(open_stream(source), output, Placing(n_landmarks=50, chunk_rows=rows, seed=3))  # 500 rows are drawn
        found.append(pd.read_parquet(output).filter(like="coordinate_").to_numpy())
    np.testing.assert_allclose(found[0], found[2], atol=1e-10 * np.abs(found[2]).max())
    np.testing.assert_allclose(found[1], found[2], atol=1e-10 * np.abs(found[2]).max())


def test_rows_without_names_are_counted(tmp_path: Path) -> None:
    table(300).filter(like="shape.").to_parquet(tmp_path / "rows.parquet")
    stream, output = open_stream(tmp_path / "rows.parquet"), tmp_path / "out.parquet"
    place_table(stream, output, Placing(n_landmarks=50, chunk_rows=70))
    assert pd.read_parquet(output)["case_id"].tolist() == [str(row) for row in range(300)]


def test_what_was_stopped_goes_on_and_what_changed_begins_anew(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, output = open_stream(source), source.with_name("out.parquet")
    how = Placing(n_landmarks=60, chunk_rows=100)
    place_table(stream, source.with_name("undisturbed.parquet"), how)

    def stop(what: str, count: int, total: int) -> None:
        if (what, count) == ("placing", 4):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place_table(stream, output, how, progress=stop)
    assert not output.exists()
    assert len(list(source.with_name(".out.parquet.parts").glob("*.parquet"))) == 4
    with pytest.raises(KeyboardInterrupt):  # another seed: what is there is of no use
        place_table(stream, output, Placing(n_landmarks=60, chunk_rows=100, seed=1), progress=stop)
    with pytest.raises(KeyboardInterrupt):
        place_table(stream, output, how, progress=stop)
    placed = place_table(stream, output, how)
    assert (placed.reused, placed.spans) == (4, 10)
    assert output.read_bytes() == source.with_name("undisturbed.parquet").read_bytes()


def test_a_file_that_was_there_stays_when_the_work_fails(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = source.with_name("out.parquet")
    output.write_bytes(b"before")
    monkeypatch.setattr(placing._Parts, "join", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        place_table(open_stream(source), output, Placing(n_landmarks=50))
    assert output.read_bytes() == b"before"


@pytest.mark.parametrize("wrong", [{"n_landmarks": 1}, {"chunk_rows": 0}, {"n_landmarks": 2.5}])
def test_wrong_settings_are_refused(source: Path, wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        place_table(open_stream(source), source.with_name("out.parquet"), Placing(**wrong))  # type: ignore[arg-type]


MEASURE = """
import sys
from pathlib import Path
from clearfold.embedding import PCA
from clearfold.embedding.placing import Placing, place_table
from clearfold.table.stream import open_stream
source = Path(sys.argv[1])
print(place_table(open_stream(source), source.with_suffix(".out.parquet"), Placing(PCA(), 50, 20_000)).peak_mb)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_memory_does_not_grow_with_the_table(tmp_path: Path) -> None:
    peaks = []
    for n in (200_000, 800_000):  # a column's page and dictionary have their full size, 1 MB each, in both
        rows = np.random.default_rng(0).normal(size=(n, 10))
        path = tmp_path / f"{n}.parquet"
        pd.DataFrame(rows, columns=[f"shape.f{i}" for i in range(10)]).to_parquet(path, row_group_size=n)
        done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
        peaks.append(float(done.stdout))
        assert pq.read_metadata(path.with_suffix(".out.parquet")).num_rows == n
    assert peaks[1] - peaks[0] < 15, f"600,000 rows are 48 MB, and the peaks are {peaks} MB"


# The command -----------------------------------------------------------------------------------------------


def test_the_command_writes_coordinates_map_and_report(source: Path) -> None:
    files = {name: source.with_name(name) for name in ("out.parquet", "map.png", "report.html")}
    words = ["embed", str(source), "-o", str(files["out.parquet"]), "--plot", str(files["map.png"])]
    words += ["--report", str(files["report.html"]), "--landmarks", "80", "--chunk-rows", "100", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    expected = {"samples": 900, "landmarks": 80, "rows in memory at once": 100, "chunks": 10}
    assert {name: facts[name] for name in expected} == expected
    assert all(path.stat().st_size > 0 for path in files.values())
    assert len(pd.read_parquet(files["out.parquet"])) == 900


@pytest.mark.parametrize("more", [[], ["--landmarks", "50", "--drop-missing"]])
def test_the_command_says_what_chunks_want(source: Path, more: list[str]) -> None:
    done = CliRunner().invoke(app, ["embed", str(source), "--chunk-rows", "100", *more])
    assert done.exit_code == 2
    assert "want --landmarks" in done.stderr
