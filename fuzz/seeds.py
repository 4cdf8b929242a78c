"""Small valid files of every kind, made by code; no binary file is kept."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HEADER = "case_id,patient_id,label,time,event,shape.area,graph.edges,note"
ROWS = ["007,p1,low,1.5,1,3.25,-4e-3,=1+1", 'b,p1,high,2,0,NA,7,"two\nlines"', "c,p2,low,0,1,1e300,8,'-x"]


def frame(n: int = 5) -> pd.DataFrame:
    """Ids, roles, features of several kinds and a note."""
    random = np.random.default_rng(0)
    about = {"case_id": [f"c{i}" for i in range(n)], "patient_id": ["p", "q"] * (n // 2) + ["r"] * (n % 2)}
    numbers = {
        "shape.area": random.normal(size=n),
        "graph.edges": np.arange(n),
        "stain.dark": random.random(n) < 0.5,
        "stain.h": random.normal(size=n).astype(np.float32),
    }
    return pd.DataFrame(about | {"label": ["a", "b", "a", None, "b"][:n], "note": list("vwxyz")[:n]} | numbers)


def separated(mark: str = ",") -> list[bytes]:
    """CSV or TSV: quotes, missing values, signs of formulas, byte order mark, other line ends."""
    whole = "\n".join([HEADER, *ROWS]) + "\n"
    plain = "a,b\n1,2\n3,4\n"
    texts = [whole, plain, "\ufeff" + plain, plain.replace("\n", "\r\n"), ",x\n0,1\n1,2\n", 'x,"y ""z"""\n1,\n']
    return [text.replace(",", mark).encode() for text in texts]


def compressed() -> list[bytes]:
    """The same in gzip."""
    return [gzip.compress(data, mtime=0) for data in separated()]


def written(suffix: str) -> bytes:
    """A table as clearfold writes it."""
    from clearfold.table import Table, write_table

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"slide{suffix}"
        table = frame()
        if suffix == ".h5":
            table = table[["shape.area", "stain.h"]].assign(coord_x=range(5), coord_y=range(5))
        write_table(Table.from_frame(table), path)
        return path.read_bytes()


def parquet() -> list[bytes]:
    """As pandas writes it, with an index, with nested columns, and with dictionaries."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    index, nested = io.BytesIO(), io.BytesIO()
    frame().set_index("case_id").to_parquet(index)
    lists = pa.array([[1, 2], [], None, [3], [4]])
    columns: dict[str, Any] = {
        "case_id": list("abcde"),
        "area": [1.0, 2, 3, 4, None],
        "lists": lists,
        "label": pa.array(list("aabbc")).dictionary_encode(),
        "struct": [{"a": 1}] * 5,
        "when": pa.array([0, 1, 2, 3, 4], pa.timestamp("ns", "UTC")),
        "raw": [b"\xff"] * 5,
    }
    pq.write_table(pa.table(columns), nested, compression="NONE")
    return [written(".parquet"), index.getvalue(), nested.getvalue()]


def hdf5() -> list[bytes]:
    """As clearfold writes it, and in compressed chunks."""
    import h5py

    packed = io.BytesIO()
    with h5py.File(packed, "w") as file:
        file.create_dataset("features", data=np.eye(4, 6), chunks=(2, 3), compression="gzip", shuffle=True)
        file.create_dataset("coords", data=np.zeros((4, 2), dtype=np.int32))
    return [written(".h5"), packed.getvalue()]


def h5ad() -> list[bytes]:
    """As clearfold writes it, and with a sparse X and a category."""
    import anndata
    from scipy import sparse

    X = sparse.random(5, 4, density=0.4, random_state=0, format="csr")
    obs = pd.DataFrame({"label": pd.Categorical(list("aabba"))}, index=list("vwxyz"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sparse.h5ad"
        anndata.AnnData(X=X, obs=obs, var=pd.DataFrame(index=list("klmn"))).write_h5ad(path)
        return [written(".h5ad"), path.read_bytes()]


# Images and objects ------------------------------------------------------------------------------------------


def pixels(height: int = 12, width: int = 16) -> np.ndarray:
    """A little tissue."""
    return np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)


def pictures(kind: str) -> list[bytes]:
    """PNG or JPEG of several modes."""
    from PIL import Image

    colour = Image.fromarray(pixels())
    modes = ["RGB", "L", "CMYK"] if kind == "JPEG" else ["RGB", "RGBA", "L", "LA", "P", "1", "I;16"]
    found = []
    for mode in modes:
        data = io.BytesIO()
        picture = Image.fromarray(pixels()[:, :, 0].astype(np.uint16) * 200) if mode == "I;16" else colour.convert(mode)
        picture.save(data, kind, dpi=(50_800, 50_800), optimize=False)
        found.append(data.getvalue())
    return found


def tiffs() -> list[bytes]:
    """Strips, tiles, compressions, depths, planes, OME, ImageJ, a pyramid, and what looks like an Aperio slide."""
    aperio = "Aperio Image Library v1.0\r\n64x64 (16x16)|AppMag = 20|MPP = 0.5"
    big = np.tile(pixels(16, 16), (4, 4, 1))
    ways: list[tuple[np.ndarray, dict[str, Any]]] = [
        (pixels(), {"photometric": "rgb"}),
        (pixels(), {"photometric": "rgb", "compression": "zlib", "rowsperstrip": 4, "predictor": True}),
        (pixels(32, 32), {"photometric": "rgb", "tile": (16, 16), "compression": "zlib"}),
        (pixels().astype(np.uint16) * 16, {"photometric": "rgb", "byteorder": ">"}),
        (pixels()[:, :, 0] > 99, {"photometric": "minisblack"}),
        (np.moveaxis(pixels(), -1, 0), {"photometric": "rgb", "planarconfig": "separate"}),
        (pixels()[:, :, 0].astype(np.float32) / 255, {"photometric": "minisblack", "bigtiff": True}),
        (pixels(), {"ome": True, "metadata": {"axes": "YXS", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.5}}),
        (pixels()[:, :, 0], {"imagej": True, "metadata": {"unit": "um"}, "resolution": (2, 2)}),
        (big, {"photometric": "rgb", "tile": (16, 16), "compression": "zlib", "description": aperio, "metadata": None}),
    ]
    return [_tiff(array, **options) for array, options in ways] + [_pyramid(big)]


def _tiff(array: np.ndarray, **options: Any) -> bytes:
    import tifffile

    data = io.BytesIO()
    tifffile.imwrite(data, array, **options)
    return data.getvalue()


def _pyramid(array: np.ndarray) -> bytes:
    import tifffile

    data = io.BytesIO()
    with tifffile.TiffWriter(data) as file:
        options: dict[str, Any] = {"photometric": "rgb", "tile": (16, 16), "metadata": None}
        file.write(array, subifds=1, **options)
        file.write(array[::2, ::2], subfiletype=1, **options)
    return data.getvalue()


def labels() -> np.ndarray:
    """Three objects in 12 x 16 pixels, the size that every mask has to have."""
    mask = np.zeros((12, 16), dtype=np.uint16)
    mask[1:4, 1:4], mask[6:9, 2:9], mask[10, 12] = 1, 2, 7
    return mask


def masks(suffix: str) -> list[bytes]:
    """Label masks of one suffix."""
    from PIL import Image

    kinds = (np.uint8, np.uint16, np.int32, np.uint64, np.float32)
    if suffix == ".tif":
        return [_tiff(labels().astype(kind), compression="zlib") for kind in (*kinds, np.uint8)]
    found = []
    for kind in kinds if suffix == ".npy" else kinds[:2]:
        data = io.BytesIO()
        array = labels().astype(kind)
        np.save(data, array) if suffix == ".npy" else Image.fromarray(array).save(data, "PNG")
        found.append(data.getvalue())
    return found


def outlines() -> list[bytes]:
    """GeoJSON of QuPath in its forms, a bare geometry, and HoVer-Net."""
    ring = [[1, 1], [5, 1], [5, 5], [1, 5], [1, 1]]
    hole = [[2, 2], [3, 2], [3, 3], [2, 2]]
    square = {"type": "Polygon", "coordinates": [ring, hole]}
    many = {"type": "MultiPolygon", "coordinates": [[ring], [[[7, 7], [9, 7], [8, 9.5], [7, 7]]]]}
    both = {"type": "GeometryCollection", "geometries": [square, {"type": "Point", "coordinates": [1, 2]}]}
    cell = {"objectType": "cell", "classification": {"names": ["Tumor", "Positive"]}}
    features = [
        {"type": "Feature", "geometry": many, "nucleusGeometry": square, "properties": cell},
        {"type": "Feature", "geometry": both, "properties": {"objectType": "detection", "classification": "a"}},
        {"type": "Feature", "geometry": square, "properties": {"objectType": "annotation"}},
    ]
    about = {"mpp": 0.5, "kind": "gland"}
    hover = {"mag": 40, "nuc": {"1": {"contour": [[1, 1], [4, 1], [4, 4]], "type": 1}, "2": {"contour": [[7, 7]]}}}
    whole: list[Any] = [{"type": "FeatureCollection", "clearfold": about, "features": features}, features, many, hover]
    return [json.dumps(one).encode() for one in whole]


# Archives and models -----------------------------------------------------------------------------------------


@cache
def archive() -> bytes:
    """A small archive with a fitted embedding."""
    from clearfold.archive import Archive
    from clearfold.embedding import PCA

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.clearfold"
        with Archive.open(path) as opened:
            opened.add(frame(5).assign(organ=["breast", "colon"] * 2 + ["breast"]))
            opened.fit(PCA(n_components=2))
        return path.read_bytes()


@cache
def models() -> list[bytes]:
    """One of each kind of embedding, fitted on few samples."""
    import warnings

    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from clearfold import embedding as known
    from clearfold.archive.model import dump_model

    random = np.random.default_rng(0)
    X, y = random.normal(size=(14, 3)), np.array(["a", "b"] * 7)
    graph = {"n_components": 2, "n_neighbors": 5}
    kinds = [
        known.PCA(n_components=2),
        known.KernelPCA(n_components=2),
        known.Isomap(**graph),
        known.LocallyLinearEmbedding(**graph),
        known.GraphEmbedding(n_components=2),
        known.BeliefSpectralEmbedding(n_components=2, random_state=0),
        make_pipeline(StandardScaler(), known.PCA(n_components=2)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [dump_model(kind.fit(X, y)) for kind in kinds]
