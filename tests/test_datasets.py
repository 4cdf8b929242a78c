"""Loaders give the same numbers for everybody, or say what is missing; nothing damaged, huge or active gets in."""

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import sparse

import clearfold.datasets as datasets
from clearfold.datasets import DatasetError, DatasetMissingError, download, reading, sources
from clearfold.errors import InputError


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, no folder of data, no proxy."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CLEARFOLD_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def real(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLEARFOLD_DATA", str(data))
    return data


class Server:
    """Serves what is put into `files`; `asked` remembers the paths."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.asked: list[str] = []
        self.claims: int | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                if self.path in outer.redirects:
                    self.send_response(302)
                    self.send_header("Location", outer.redirects[self.path])
                    self.end_headers()
                    return
                body = outer.files.get(self.path)
                self.send_response(404 if body is None else 200)
                length = len(body or b"") if outer.claims is None else outer.claims
                if length >= 0:
                    self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.http.shutdown()
    one.thread.join()
    one.http.server_close()


# Real data: the facts that are known of them --------------------------------------------------------------


TABLES = [
    ("madelon", (2600, 500), {-1: 1300, 1: 1300}, {"train": 2000, "valid": 600}),
    ("arcene", (200, 10000), {-1: 112, 1: 88}, {"train": 100, "valid": 100}),
    ("dexter", (600, 20000), {-1: 300, 1: 300}, {"train": 300, "valid": 300}),
    ("golub", (72, 7129), {"ALL": 47, "AML": 25}, {"train": 38, "test": 34}),
    ("wpbc", (198, 32), {0: 151, 1: 47}, None),
    ("mibc", (217, 1240), {-1: 61, 0: 56, 1: 100}, None),
    ("ucsb", (2002, 708), None, None),
]


@pytest.mark.parametrize(("name", "shape", "labels", "split"), TABLES, ids=[row[0] for row in TABLES])
def test_tables_have_their_shapes_and_classes(name: str, shape: Any, labels: Any, split: Any, real: Path) -> None:
    found = getattr(datasets, f"load_{name}")()
    assert found.X.shape == shape
    assert len(found) == len(found.y) == shape[0]
    assert labels is None or found.y.value_counts().to_dict() == labels
    assert (found.split is None) if split is None else (found.split.value_counts().to_dict() == split)
    assert found.source
    assert found.licence
    assert name in repr(found)


def test_parts_are_the_official_split(real: Path) -> None:
    golub = datasets.load_golub()
    train = golub.part("train")
    assert train.X.shape == (38, 7129)
    assert train.y.value_counts().to_dict() == {"ALL": 27, "AML": 11}
    assert list(train.groups) == list(range(1, 39))
    held = np.load(real / "nips2003" / "arcene.npz")
    arcene = datasets.load_arcene().part("train")
    assert np.array_equal(arcene.X, held["X_train"])
    assert int((arcene.X.std() == 0).sum()) == 80
    dexter = datasets.load_dexter().part("train")
    assert sparse.issparse(dexter.X)
    assert int((np.abs(dexter.X).sum(axis=0) > 0).sum()) == 7751
    with pytest.raises(InputError, match="its parts are test, train"):
        golub.part("valid")


def test_kather_names_its_tissues_and_keeps_what_is_missing(real: Path) -> None:
    found = datasets.load_kather()
    assert found.X.shape == (5000, 84)
    assert set(found.y.value_counts()) == {625}
    assert "01_TUMOR" in set(found.y)
    textures = [f"glcm_{i}" for i in range(6, 11)]
    assert int(found.X[textures].isna().all(axis=1).sum()) == 40
    assert int(found.X.drop(columns=textures).isna().sum().sum()) == 2


def test_survival_times_of_wpbc(real: Path) -> None:
    found = datasets.load_wpbc()
    assert int(found.X.isna().sum().sum()) == 4
    assert found.table["event"].sum() == 47
    assert found.table["time"].between(1, 125).all()
    assert found.groups.is_unique


def test_cores_with_an_outcome(real: Path) -> None:
    found = datasets.load_mibc()
    known = found.take(found.y != -1)
    assert (len(known), known.groups.nunique()) == (156, 58)
    assert found.X.isna().to_numpy().mean() == pytest.approx(0.0012, abs=1e-4)


def test_the_other_golub(real: Path) -> None:
    found = datasets.load_golub(version="multtest")
    assert found.X.shape == (38, 3051)
    assert found.X.columns.is_unique
    with pytest.raises(InputError, match="'raw' or 'multtest'"):
        datasets.load_golub(version="new")


def test_sets_of_images(real: Path) -> None:
    glas = datasets.load_glas()
    assert (len(glas), glas.groups.nunique(), glas.table["n_glands"].sum()) == (165, 16, 1530)
    assert glas.split.value_counts().to_dict() == {"train": 85, "testA": 60, "testB": 20}
    with Image.open(glas.masks[0]) as mask, Image.open(glas.images[0]) as image:
        assert mask.size == image.size
        assert len(np.unique(np.asarray(mask))) - 1 == glas.table["n_glands"][0]
    prostate = datasets.load_prostate_tma()
    assert set(prostate.y.value_counts()) == {30}
    assert prostate.groups is None
    assert prostate.table["case_id"].is_unique
    with pytest.raises(InputError, match="no masks"):
        _ = prostate.masks
    gbm = datasets.load_nuclei_gbm40()
    assert len(gbm) == 40
    assert sum(len(np.unique(np.asarray(Image.open(mask)))) - 1 for mask in gbm.masks) == 4976
    ucsb = datasets.load_nuclei_ucsb26()
    assert len(ucsb.images) == len(ucsb.masks) == 26
    with Image.open(ucsb.images[3]) as image:
        assert image.size == (896, 768)


def test_sets_that_need_no_file() -> None:
    assert datasets.load_wdbc().X.shape == (569, 30)
    roll = datasets.load_swiss_roll(500, random_state=3)
    assert roll.X.shape == (500, 3)
    assert np.array_equal(roll.y == 1, roll.table["position"] > 3 * np.pi)
    radius = np.hypot(roll.X["x"], roll.X["z"])
    assert np.allclose(radius, roll.table["position"])


# The same numbers from the official format ----------------------------------------------------------------


def dense_text(X: Any) -> bytes:
    return "".join(" ".join(map(str, row)) + " \n" for row in X).encode()


def sparse_text(X: Any) -> bytes:
    return "".join(
        " ".join(f"{j + 1}:{v}" for j, v in zip(row.indices, row.data, strict=True)) + " \n"
        for row in (X[[i]] for i in range(X.shape[0]))
    ).encode()


def labels_text(y: Any) -> bytes:
    return "".join(f"{label}\n" for label in y).encode()


def serve(server: Server, name: str, bodies: list[bytes], monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Let the source of a set point to the server."""
    source = sources.SOURCES[name]
    files = []
    for file, body in zip(source.files, bodies, strict=True):
        server.files[f"/{name}/{file.name}"] = body
        known = hashlib.sha256(body).hexdigest()
        files.append(replace(file, address=f"{server.address}/{name}/{file.name}", sha256=known))
    monkeypatch.setitem(sources.SOURCES, name, replace(source, files=tuple(files), **changes))


@pytest.mark.parametrize("name", ["arcene", "dexter", "wpbc"])
def test_official_files_give_the_numbers_of_the_prepared_ones(
    name: str, real: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = getattr(datasets, f"load_{name}")
    prepared = load()
    if name == "wpbc":
        text = (real / "tables" / "wpbc.csv").read_text(encoding="utf-8").splitlines()[1:]
        bodies = ["".join(f"{line}?\n" if line.endswith(",") else f"{line}\n" for line in text).encode()]
    else:
        parts = [prepared.part("train"), prepared.part("valid")]
        as_text = sparse_text if name == "dexter" else (lambda X: dense_text(X.to_numpy(dtype=int)))
        bodies = [body for part in parts for body in (as_text(part.X), labels_text(part.y))]
    serve(server, name, bodies, monkeypatch)
    monkeypatch.delenv("CLEARFOLD_DATA")
    seen: list[tuple[str, int, int | None]] = []
    fetched = load(progress=lambda *state: seen.append(state))
    left, right = ((X.toarray() if sparse.issparse(X) else X.to_numpy()) for X in (prepared.X, fetched.X))
    assert np.array_equal(left, right, equal_nan=True)
    assert np.array_equal(prepared.y, fetched.y)
    assert seen[-1][1] == seen[-1][2] == len(bodies[-1])
    count = len(server.asked)
    load()
    assert len(server.asked) == count, "the second time it comes from the cache"


def small(n_train: int = 6, n_valid: int = 4) -> list[bytes]:
    random = np.random.default_rng(0)
    return [
        body
        for n in (n_train, n_valid)
        for body in (dense_text(random.integers(0, 999, (n, 5000))), labels_text([-1, 1] * (n // 2)))
    ]


def test_a_set_of_another_shape_is_refused_and_removed(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    serve(server, "gisette", small(), monkeypatch)
    with pytest.raises(DatasetError, match=r"shape \(10, 5000\) came; wanted is \(7000, 5000\).*removed"):
        datasets.load_gisette()
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_damaged_download_is_refused_and_removed(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bodies = small()
    serve(server, "gisette", bodies, monkeypatch)
    server.files["/gisette/gisette_train.data"] = b"9" + bodies[0][1:]
    with pytest.raises(DatasetError, match=r"gisette_train\.data .* is damaged: its checksum"):
        datasets.load_gisette()
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_cached_file_that_was_changed_is_refused_and_removed(
    real: Path, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = (real / "tables" / "wpbc.csv").read_text(encoding="utf-8").splitlines()[1:]
    serve(server, "wpbc", ["\n".join(lines).encode()], monkeypatch)
    monkeypatch.delenv("CLEARFOLD_DATA")
    datasets.load_wpbc()
    cached = tmp_path / "cache" / "clearfold" / "wpbc" / "wpbc.data"
    cached.write_text(cached.read_text().replace("18.02", "18.03", 1))
    with pytest.raises(DatasetError, match="another checksum"):
        datasets.load_wpbc()
    assert not cached.exists()
    assert len(datasets.load_wpbc()) == 198


def test_without_a_known_checksum_the_digest_of_the_numbers_refuses(
    real: Path, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = (real / "tables" / "wpbc.csv").read_text(encoding="utf-8").splitlines()[1:]
    body = "\n".join(lines).replace("18.02", "18.03", 1).encode()
    serve(server, "wpbc", [body], monkeypatch)
    source = sources.SOURCES["wpbc"]
    monkeypatch.setitem(sources.SOURCES, "wpbc", replace(source, files=(replace(source.files[0], sha256=None),)))
    monkeypatch.delenv("CLEARFOLD_DATA")
    with pytest.raises(DatasetError, match="digest differs"):
        datasets.load_wpbc()
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_files_of_the_users_own_folder_are_refused_but_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "own" / "nips2003"
    folder.mkdir(parents=True)
    (folder / "madelon.npz").write_bytes(b"PK not a zip file")
    monkeypatch.setenv("CLEARFOLD_DATA", str(tmp_path / "own"))
    with pytest.raises(DatasetError, match=r"madelon: the files cannot be read"):
        datasets.load_madelon()
    np.savez(folder / "madelon.npz", X_train=np.array([{"a": 1}]), y_train=1, X_valid=1, y_valid=1)
    with pytest.raises(DatasetError, match="cannot be read"):
        datasets.load_madelon()
    assert (folder / "madelon.npz").exists()


def test_official_files_may_lie_in_the_users_own_folder(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, real: Path
) -> None:
    lines = (real / "tables" / "wpbc.csv").read_text(encoding="utf-8").splitlines()[1:]
    (tmp_path / "own" / "wpbc").mkdir(parents=True)
    (tmp_path / "own" / "wpbc" / "wpbc.data").write_text("\n".join(lines))
    monkeypatch.setenv("CLEARFOLD_DATA", str(tmp_path / "own"))
    assert len(datasets.load_wpbc()) == 198


# What is missing is named ---------------------------------------------------------------------------------


def test_no_network_and_no_data_say_what_to_do(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    serve(server, "gisette", small(), monkeypatch)
    server.files.clear()
    wanted = r"gisette_train\.data is not available here, and fetching http://.* failed: .*CLEARFOLD_DATA.*gisette\.npz"
    with pytest.raises(DatasetMissingError, match=wanted):
        datasets.load_gisette()


@pytest.mark.parametrize("name", ["golub", "mibc", "kather", "ucsb", "glas", "prostate_tma", "nuclei_gbm40"])
def test_sets_without_a_known_address_ask_for_the_folder(name: str) -> None:
    with pytest.raises(DatasetMissingError, match=rf"{name} is not available here.*CLEARFOLD_DATA"):
        getattr(datasets, f"load_{name}")()


def test_a_folder_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLEARFOLD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetMissingError, match=r"nowhere names no folder"):
        datasets.load_madelon()


def test_images_that_are_missing_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "glas").mkdir()
    table = pd.DataFrame({"name": ["../../secret"], "patient": [1], "grade": ["benign"], "subgrade": ["healthy"]})
    table.assign(n_glands=1.0, split="train").to_csv(tmp_path / "glas" / "glas_labels.csv", index=False)
    (tmp_path / "prostate_tma").mkdir()
    monkeypatch.setenv("CLEARFOLD_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match="no plain file name"):
        datasets.load_glas()
    with pytest.raises(DatasetError, match="0 images are there; wanted are 120"):
        datasets.load_prostate_tma()


# Downloads are bounded ------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://host/file", "data:,hello", "/etc/passwd"])
def test_only_web_addresses(address: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="wanted is http or https"):
        download.download(address, tmp_path / "file")


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_a_redirect_cannot_leave_the_web(to: str, server: Server, tmp_path: Path) -> None:
    server.redirects["/a"] = to
    with pytest.raises(DatasetError):
        download.download(f"{server.address}/a", tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_a_redirect_within_the_web_is_followed(server: Server, tmp_path: Path) -> None:
    server.redirects["/a"] = "/b"
    server.files["/b"] = b"hello"
    download.download(f"{server.address}/a", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"hello"


@pytest.mark.parametrize("claims", [None, -1])
def test_too_large_is_refused_with_and_without_a_length(claims: int | None, server: Server, tmp_path: Path) -> None:
    server.files["/a"], server.claims = b"x" * 200_000, claims
    with pytest.raises(DatasetError, match="not the official file"):
        download.download(f"{server.address}/a", tmp_path / "new" / "file", largest=100_000)
    assert not (tmp_path / "new").exists()


def test_a_download_that_is_cut_short_leaves_the_old_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    server.files["/a"], server.claims = b"x" * 100, 1000
    with pytest.raises(DatasetError):
        download.download(f"{server.address}/a", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_files_that_unfold_to_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    monkeypatch.setattr(reading, "LARGEST", 10_000)
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros(100_000))
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(100_000)))
    with pytest.raises(InputError, match="unfolds to"):
        reading.arrays(tmp_path / "a.npz")
    with pytest.raises(InputError, match="unfolds to"):
        reading.gzipped(tmp_path / "a.gz")


def test_an_archive_is_never_unpacked_to_disk(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.save(content, np.arange(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("../../outside.npy", content.getvalue())
    reading.arrays(tmp_path / "a.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


# The digest and the object --------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=1, max_size=6))
def test_the_digest_speaks_of_numbers_not_of_storage(rows: list[list[int]]) -> None:
    table = np.array(rows)
    assert reading.digest(table.astype(np.int16)) == reading.digest(np.asfortranarray(table.astype(float)))
    assert reading.digest(sparse.csr_array(table)) == reading.digest(sparse.csc_array(table))
    changed = table.copy()
    changed[0, 0] += 1
    assert reading.digest(table) != reading.digest(changed)
    assert reading.digest(table) != reading.digest(table.T) or table.shape == table.T.shape


def test_taking_rows_takes_them_everywhere() -> None:
    roll = datasets.load_swiss_roll(50)
    some = roll.take([3, 1])
    assert list(some.y) == list(roll.y[[3, 1]])
    assert np.array_equal(some.X, roll.X.iloc[[3, 1]])
    assert np.array_equal(some.table["position"], roll.table["position"][[3, 1]])
    with pytest.raises(InputError, match="not defined"):
        roll.part("train")


def test_the_cache_is_where_the_system_keeps_such_things(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert sources.cache_folder() == tmp_path / "cache" / "clearfold"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(sources.sys, "platform", "linux")
    assert sources.cache_folder() == Path.home() / ".cache" / "clearfold"
    monkeypatch.setattr(sources.sys, "platform", "darwin")
    assert sources.cache_folder() == Path.home() / "Library" / "Caches" / "clearfold"


def test_every_source_is_a_web_address_and_every_digest_is_used() -> None:
    for source in sources.SOURCES.values():
        assert all(file.address.startswith("https://") for file in source.files)
        assert source.prepared
    assert set(sources.DIGESTS) <= set(sources.SOURCES)
