"""A table comes back as it was written, says what each column is for, and refuses what it cannot use."""

import csv
import gzip
import os
import stat
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearfold import table as module
from clearfold.errors import MissingExtraError, TableError
from clearfold.table import Dropped, Table, atomic_write, family, read_table, write_table

TEXT_FORMATS = [".csv", ".csv.gz", ".tsv", ".tsv.gz"]
NEEDS_ANNDATA = pytest.mark.skipif(find_spec("anndata") is None, reason="needs the extra clearfold[anndata]")
H5AD = pytest.param(".h5ad", marks=NEEDS_ANNDATA)
FORMATS = [*TEXT_FORMATS, ".parquet", H5AD]


def cases() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "case_id": ["a", "b", "c", "d"],
            "patient_id": ["007", "007", "012", "100"],
            "label": ["x", "y", None, "x"],
            "graph.edges.mean": [0.1, 1 / 3, np.nan, -1e-300],
            "graph.edges.sd": [1, 2, 3, 4],
            "shape.area": [1e22, 2.5, 3.0, 4.0],
            "note": ["fine", "", "poor", None],
        }
    )


def written(folder: Path, text: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# Which column is what -----------------------------------------------------------------------------------------


def test_roles_features_families_and_what_is_left() -> None:
    table = Table.from_frame(cases())
    assert table.roles == {"case_id": "case_id", "patient_id": "patient_id", "label": "label"}
    assert table.features == ["graph.edges.mean", "graph.edges.sd", "shape.area"]
    assert list(table.families.values()) == ["graph", "graph", "shape"]
    assert table.ignored == {"note": "text"}
    assert table.n_missing == 1
    assert len(table) == 4


def test_X_is_floats_in_the_order_of_features() -> None:
    table = Table.from_frame(cases())
    assert list(table.X.columns) == table.features
    assert set(table.X.dtypes) == {np.dtype(float)}
    assert table.X["graph.edges.sd"].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_arguments_give_a_role_to_other_names() -> None:
    frame = cases().rename(columns={"label": "grade", "patient_id": "pat"})
    table = Table.from_frame(frame, label="grade", patient_id="pat")
    assert table.y is not None
    assert table.y.tolist()[:2] == ["x", "y"]
    assert table.groups is not None
    assert table.groups.tolist() == ["007", "007", "012", "100"]


def test_a_column_named_like_a_role_is_never_a_feature() -> None:
    frame = pd.DataFrame({"label": [0, 1], "grade": [3, 4], "area": [1.0, 2.0]})
    table = Table.from_frame(frame, label="grade")
    assert table.features == ["area"]
    assert table.ignored == {"label": "label is grade"}


def test_without_roles_there_is_no_label_and_no_group() -> None:
    table = Table.from_frame(pd.DataFrame({"area": [1.0, 2.0]}))
    assert table.y is None
    assert table.groups is None


def test_the_slide_groups_when_there_is_no_patient() -> None:
    table = Table.from_frame(pd.DataFrame({"slide_id": ["s", "t"], "area": [1.0, 2.0]}))
    assert table.groups is not None
    assert table.groups.tolist() == ["s", "t"]


def test_a_sample_without_patient_cannot_be_grouped() -> None:
    table = Table.from_frame(pd.DataFrame({"patient_id": ["p", None], "area": [1.0, 2.0]}))
    with pytest.raises(TableError, match="1 of 2 samples have no patient_id"):
        _ = table.groups


def test_a_text_index_becomes_the_case_id() -> None:
    table = Table.from_frame(pd.DataFrame({"area": [1.0, 2.0]}, index=["one", "two"]))
    assert table.roles == {"case_id": "case_id"}
    assert table.frame["case_id"].tolist() == ["one", "two"]


def test_an_index_is_never_a_feature() -> None:
    frame = pd.DataFrame({"area": [1.0, 2.0]}, index=pd.Index([4, 5], name="number"))
    assert Table.from_frame(frame).ignored == {"number": "the index"}
    assert Table.from_frame(frame, case_id="number").roles == {"case_id": "number"}
    repeated = Table.from_frame(pd.DataFrame({"area": [1.0, 2.0]}, index=["p", "p"]))
    assert repeated.ignored == {"index": "the index"}


def test_truth_values_and_nullable_numbers_are_features() -> None:
    frame = pd.DataFrame({"solid": [True, False], "count": pd.array([1, None], dtype="Int64")})
    assert np.array_equal(Table.from_frame(frame).X, [[1.0, 1.0], [0.0, np.nan]], equal_nan=True)


def test_a_number_column_spoiled_by_text_says_which_cells() -> None:
    frame = pd.DataFrame({"area": [1.0, 2.0, 3.0], "nodes": ["1", "?", "3"]})
    assert Table.from_frame(frame).ignored == {"nodes": "text in 1 of 3 cells, such as '?'"}


def test_the_representation_says_everything_a_reader_must_know() -> None:
    assert repr(Table.from_frame(cases())).splitlines() == [
        "Table: 4 samples, 3 features",
        "  families: graph (2), 1 of one feature",
        "  roles: case_id, patient_id, label",
        "  missing: 1 value (8.33%)",
        "  ignored: note (text)",
    ]


@pytest.mark.parametrize(("name", "expected"), [("glcm.a.b", "glcm"), ("area", "area"), (".x", "")])
def test_family_is_the_part_before_the_first_dot(name: str, expected: str) -> None:
    assert family(name) == expected


# Missing values -----------------------------------------------------------------------------------------------


def test_complete_drops_poor_features_first_and_then_incomplete_samples() -> None:
    frame = pd.DataFrame(np.ones((40, 3)), columns=["good", "poor", "fair"])
    frame.loc[:9, "poor"] = np.nan
    frame.loc[3, "fair"] = np.nan
    table = Table.from_frame(frame).complete()
    assert table.features == ["good", "fair"]
    assert table.dropped == Dropped(("poor",), 1)
    assert table.n_missing == 0
    assert table.frame.index.tolist() == [row for row in range(40) if row != 3]
    assert "dropped: 1 feature and 1 sample with missing values" in repr(table)


def test_complete_keeps_a_feature_at_the_stated_share() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0, 4.0], "b": [1.0, 2.0, 3.0, 4.0]})
    assert Table.from_frame(frame).complete(max_missing=0.25).dropped == Dropped((), 1)
    assert Table.from_frame(frame).complete(max_missing=0.24).dropped == Dropped(("a",), 0)


def test_complete_refuses_to_return_nothing() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": [np.nan, 1.0]})
    with pytest.raises(TableError, match="Nothing is left of 2 samples and 2 features"):
        Table.from_frame(frame).complete(max_missing=0.9)


def test_complete_wants_a_share_and_no_percentage() -> None:
    with pytest.raises(TableError, match="a share from 0 to 1"):
        Table.from_frame(cases()).complete(max_missing=5)


# Round trips --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_table_comes_back_as_it_was_written(tmp_path: Path, suffix: str) -> None:
    table = Table.from_frame(cases())
    write_table(table, tmp_path / f"t{suffix}")
    back = read_table(tmp_path / f"t{suffix}")
    assert back.roles == table.roles
    assert back.families == table.families
    assert list(back.ignored) == ["note"]
    np.testing.assert_array_equal(back.X, table.X)
    assert back.frame["patient_id"].tolist() == ["007", "007", "012", "100"]
    assert back.y is not None
    assert back.y.isna().tolist() == [False, False, True, False]


finite = st.floats(allow_nan=True, allow_infinity=False)
# Cells that mean "missing" in CSV, and text that is a number, cannot come back as text.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8).filter(
    lambda text: text not in module.MISSING
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    numbers=st.lists(finite, min_size=1, max_size=6),
    text=st.lists(texts, min_size=1, max_size=6),
    suffix=st.sampled_from([".csv", ".tsv", ".parquet"]),
)
def test_every_number_and_every_text_comes_back(
    tmp_path: Path, numbers: list[float], text: list[str], suffix: str
) -> None:
    size = min(len(numbers), len(text))
    frame = pd.DataFrame({"patient_id": text[:size], "a.b": np.array(numbers[:size])})
    write_table(frame, tmp_path / f"t{suffix}")
    back = read_table(tmp_path / f"t{suffix}").frame
    assert back["patient_id"].tolist() == text[:size]
    np.testing.assert_array_equal(back["a.b"].to_numpy(dtype=float), frame["a.b"].to_numpy())


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "'="])
def test_no_text_cell_can_run_as_a_formula(tmp_path: Path, start: str) -> None:
    evil = start + 'cmd|"/C calc"!A0'
    frame = pd.DataFrame({"label": [evil, "fine"], start + "head": ["t", "u"], "area": [-1.5, 2.0]})
    write_table(frame, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert f"'{evil}" in cells
    assert f"'{start}head" in cells
    assert "-1.5" in cells  # numbers are untouched
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv").frame, frame, check_dtype=False)


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        write_table(cases(), tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert (tmp_path / "a.csv.gz").read_bytes()[3:8] == bytes(5)  # no name and no time in the header


def test_fifty_thousand_columns(tmp_path: Path) -> None:
    frame = pd.DataFrame(np.arange(150_000.0).reshape(3, -1), columns=[f"f.{i}" for i in range(50_000)])
    write_table(frame, tmp_path / "wide.csv")
    table = read_table(tmp_path / "wide.csv")
    np.testing.assert_array_equal(table.X, frame)


def test_anndata_says_what_is_a_feature_and_its_family(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame({"label": ["x", "y"], "age": [50, 60]}, index=["one", "two"])
    var = pd.DataFrame({"family": ["shape", "colour"]}, index=["area", "hue"])
    anndata.AnnData(X=np.array([[1.0, 2.0], [3.0, 4.0]]), obs=obs, var=var).write_h5ad(tmp_path / "t.h5ad")
    table = read_table(tmp_path / "t.h5ad")
    assert table.families == {"area": "shape", "hue": "colour"}
    assert table.frame["case_id"].tolist() == ["one", "two"]
    assert table.ignored == {"age": "not among the features"}


def test_hdf5_of_one_slide(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "slide-1.h5", "w") as file:
        file["features"] = np.arange(6, dtype=np.float32).reshape(3, 2)
        file["coords"] = np.arange(6).reshape(3, 2)
    table = read_table(tmp_path / "slide-1.h5")
    assert table.features == ["feature.0", "feature.1"]
    assert table.groups is not None
    assert set(table.groups) == {"slide-1"}
    assert list(table.ignored) == ["coord_x", "coord_y"]
    (tmp_path / "copy").mkdir()
    write_table(table, tmp_path / "copy" / "slide-1.h5")
    back = read_table(tmp_path / "copy" / "slide-1.h5")
    pd.testing.assert_frame_equal(back.frame, table.frame, check_dtype=False)


def test_hdf5_refuses_to_lose_columns(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    with pytest.raises(TableError, match=r"would lose case_id, patient_id, label, note"):
        write_table(Table.from_frame(cases()), tmp_path / "t.h5")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".h5ad", ".h5"])
def test_a_missing_extra_names_the_command(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anndata", None)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'clearfold\[anndata\]'"):
        read_table(written(tmp_path, "x", f"t{suffix}"))


# What is refused ----------------------------------------------------------------------------------------------

BAD_FILES: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "is empty"),
    "blank": ("\n\n", "no header"),
    "header only": ("a,b\n", "0 rows and 2 columns"),
    "duplicate header": ("a,b,a\n1,2,3\n", "Duplicate column: a"),
    "long row": ("a,b\n1,2\n1,2,3\n", "line 3 has 3 cells but the header names 2"),
    "short row": ("a,b,c\n1,2\n", "line 2 has 2 cells but the header names 3"),
    "every row too long": ("a,b\n1,2,3\n4,5,6\n", "line 2 has 3 cells"),
    "not text": (b"a,b\n1,\xff\xfe\n", "not UTF-8"),
    "semicolons": ("a;b\n1;2\n", "separated by ';'; wanted is ','"),
    "no number": ("a,b\nx,y\n", "no numeric feature"),
    "decimal commas": ('a,b\n"1,5",x\n', "no numeric feature"),
    "infinity": ("a,b\n1,inf\n2,-inf\n", "2 infinite values in b"),
    "duplicate case": ("case_id,a\nx,1\nx,2\n", "Duplicate case id: x"),
    "case without id": ("case_id,a\nx,1\n,2\n", "misses 1 values"),
    "text time": ("time,a\nsoon,1\n", "text such as 'soon'"),
    "negative time": ("time,a\n-1,1\n", "negative"),
    "text event": ("event,a\nyes,1\n", "text such as 'yes'"),
    "other event": ("event,a\n2,1\n", "wanted is 1"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_with_its_name_and_reason(tmp_path: Path, name: str) -> None:
    text, reason = BAD_FILES[name]
    path = written(tmp_path, text)
    with pytest.raises(TableError, match=reason) as caught:
        read_table(path)
    assert "table.csv" in str(caught.value)


@pytest.mark.parametrize("suffix", [".parquet", ".csv.gz", ".h5", H5AD])
def test_a_damaged_file_is_refused(tmp_path: Path, suffix: str) -> None:
    name = f"t{suffix}"
    with pytest.raises(TableError, match=name):
        read_table(written(tmp_path, "this is not what the suffix says\n" * 20, name))


@pytest.mark.parametrize("name", ["t.parquet", "t.csv.gz"])
def test_half_a_file_is_refused(tmp_path: Path, name: str) -> None:
    write_table(cases(), tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    with pytest.raises(TableError, match=name):
        read_table(written(tmp_path, whole[: len(whole) // 2], name))


def test_a_missing_file_a_folder_and_an_unknown_suffix(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="There is no file"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(TableError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(TableError, match=r"'.xlsx' is not known. Tables are .csv"):
        read_table(written(tmp_path, "x", "t.xlsx"))
    with pytest.raises(TableError, match=r"'.pkl' is not known"):
        write_table(cases(), tmp_path / "t.pkl")


def test_a_wrong_name_is_answered_with_close_ones(tmp_path: Path) -> None:
    path = written(tmp_path, "Grade,patient,area\n1,2,3\n")
    with pytest.raises(TableError, match=r"no column 'grades' .* Did you mean 'Grade'"):
        read_table(path, label="grades")
    with pytest.raises(TableError, match=r"The columns are: Grade, patient, area"):
        read_table(path, ignore=["zzz"])


@pytest.mark.parametrize(
    ("features", "reason"),
    [(["note"], "it is text"), (["label"], "is the label"), (["shape.area"] * 2, "Duplicate feature")],
)
def test_a_declared_feature_that_cannot_be_one(features: list[str], reason: str) -> None:
    with pytest.raises(TableError, match=reason):
        Table.from_frame(cases(), features=features)


def test_only_declared_features_are_used() -> None:
    table = Table.from_frame(cases(), features=["shape.area"])
    assert table.features == ["shape.area"]
    assert table.ignored["graph.edges.sd"] == "not among the features"


def test_a_column_cannot_have_a_role_and_be_ignored() -> None:
    with pytest.raises(TableError, match="both label and in ignore"):
        Table.from_frame(cases(), label="note", ignore=["note"])
    assert "label" not in Table.from_frame(cases(), ignore=["label"]).roles


@pytest.mark.parametrize("header", ["", "Unnamed: 0"])
def test_a_row_number_that_pandas_wrote_is_no_feature(tmp_path: Path, header: str) -> None:
    table = read_table(written(tmp_path, f"{header},area\n0,5\n1,6\n"))
    assert table.features == ["area"]
    assert table.ignored == {"Unnamed: 0": "no name in the header"}


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert read_table(written(tmp_path, b"\xef\xbb\xbflabel,area\nx,1\n")).roles == {"label": "label"}


# Files that were there ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_failure_in_the_middle_leaves_the_old_file(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"t{suffix}"
    write_table(Table.from_frame(cases()), path)
    before = path.read_bytes()
    writer = module.FORMATS[suffix]

    def fail(table: Table, temporary: Path, path: Path) -> None:
        writer.write(table, temporary, path)
        with temporary.open("ab") as file:
            file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(module.FORMATS, suffix, replace(writer, write=fail))
    with pytest.raises(TableError, match="No space left"):
        write_table(cases(), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_the_new_file_takes_the_place_of_the_old_one_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "old")

    def fail(source: Path, target: Path) -> None:
        assert source.read_bytes().startswith(b"case_id")
        assert target.read_bytes() == b"old"
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(TableError, match="Operation not permitted"):
        write_table(cases(), path)
    assert path.read_bytes() == b"old"


def test_an_interrupt_leaves_the_old_file(tmp_path: Path) -> None:
    path = written(tmp_path, "old")

    def interrupted() -> None:
        with atomic_write(path) as temporary:
            temporary.write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_table_that_a_format_cannot_hold_leaves_the_old_file(tmp_path: Path) -> None:
    write_table(cases(), tmp_path / "t.parquet")
    before = (tmp_path / "t.parquet").read_bytes()
    mixed = pd.DataFrame({"area": [1.0, 2.0], "note": ["text", 5]})
    with pytest.raises(TableError, match="cannot hold"):
        write_table(mixed, tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_writing_keeps_permissions_and_follows_links(tmp_path: Path) -> None:
    target = written(tmp_path, "old", "target.csv")
    target.chmod(0o640)
    link = tmp_path / "link.csv"
    link.symlink_to(target)
    write_table(cases(), link)
    assert link.is_symlink()
    assert stat.S_IMODE(os.stat(target).st_mode) == 0o640
    assert len(read_table(target)) == 4


def test_writing_to_a_folder_or_into_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(TableError, match="is a folder"):
        write_table(cases(), tmp_path / "t.csv")
    with pytest.raises(TableError, match="does not exist"):
        write_table(cases(), tmp_path / "none" / "t.csv")


def test_an_empty_frame_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="0 rows"):
        write_table(cases().head(0), tmp_path / "t.csv")


# Real tables --------------------------------------------------------------------------------------------------


def test_bladder_cores(data: Path, tmp_path: Path) -> None:
    path = data / "tables" / "mibc_discovery.csv.gz"
    roles = {"label": "nonresponder", "patient_id": "patientID"}
    table = read_table(path, ignore=["TMA.set"], **roles)
    assert (len(table), len(table.features)) == (217, 1240)
    assert table.n_missing == 326
    assert set(table.ignored) == {"TMA.set", "TMA.core", "tissueType"}
    assert sum(group == "Nucl" for group in table.families.values()) == 60
    assert table.complete().n_missing == 0
    write_table(table, tmp_path / "t.csv")
    np.testing.assert_array_equal(read_table(tmp_path / "t.csv", **roles).X[table.features], table.X)


def test_recurrence_times(data: Path) -> None:
    table = read_table(data / "tables" / "wpbc.csv", case_id="id", label="outcome")
    assert table.roles == {"case_id": "id", "label": "outcome", "time": "time"}
    assert len(table.features) == 32
    assert table.complete().dropped == Dropped((), 4)


def test_a_compressed_file_is_compressed(tmp_path: Path) -> None:
    write_table(cases(), tmp_path / "t.csv.gz")
    assert gzip.decompress((tmp_path / "t.csv.gz").read_bytes()).startswith(b"case_id,patient_id")
