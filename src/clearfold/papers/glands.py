"""OSE-SSL section 5.2 on whole glands of GlaS: the shapes of glands, three classes, new glands placed.

Protocol "printed" draws glands and lets a gland find any other; "corrected" draws patients and keeps them apart.
"""

from __future__ import annotations

import base64
import io
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.embedding import GraphEmbedding
from clearfold.embedding.spectral import Matrix
from clearfold.errors import ClearfoldWarning
from clearfold.evaluate import retrieval
from clearfold.papers.claims import ALIKE, Above, All, Between, Claim, Figure, Near, alike, mean_figure
from clearfold.papers.pieces import Findings, Piece

if TYPE_CHECKING:
    import pandas as pd

GLANDS = "GlaS glands"
METHODS = ("medial_axis", "concavity")
"""The distance nearest to the paper's medial axis models, and the best untrained one."""
TRAINING, LABELLED = (0.3, 0.5, 0.8, 0.9, 1.0), (0.3, 0.5, 0.6, 0.9)
N_COMPONENTS = 3
SHOWN = (0.8, 0.6)
"""M and S of Fig. 2."""
N_HITS = 5
SIDE, MARGIN = 96, 12
"""Pixels of a picture of a gland, and around its contour."""


def _at(what: str, training: float, labelled: float) -> str:
    return f"{GLANDS} {what}, M = {training:.0%}, S = {labelled:.0%}"


CLAIMS = (
    Claim(
        "ose-ssl.prostate", "888 prostate glands compared by medial axis shape models", "5.2, Fig. 1c, 1d",
        "AUPRC > .4", "prostate glands", why="the glands are not public",
    ),
    Claim(
        "ose-ssl.glands.level", f"{GLANDS}: from M > 30 % on SI > 0 (S = 50 %)", "5.2, Fig. 1c", "SI > 0", GLANDS,
        Above(tuple(_at("SI of OSE-SSL", m, 0.5) for m in (0.5, 0.8, 0.9))), stand_in=True,
    ),
    Claim(
        "ose-ssl.glands.half", f"{GLANDS}: SI at S = 50 %", "5.2, Fig. 1c", "SI = .5", GLANDS,
        Near((_at("SI of OSE-SSL", 0.9, 0.5),), 0.5, 0.5, "silhouette"), stand_in=True,
    ),
    Claim(
        "ose-ssl.glands.labels", f"{GLANDS}: OSE-SSL retrieves better than NM-GE, all glands (M = 80 %, S = 60 %)",
        "5.2, Fig. 1d", "higher AUPRC", GLANDS, Above((_at("AUPRC of OSE-SSL minus NM-GE", *SHOWN),)), stand_in=True,
    ),
    Claim(
        "ose-ssl.glands.new", f"{GLANDS}: the same for glands that are placed as new", "6",
        "better able to distinguish", GLANDS, Above((_at("AUPRC of OSE-SSL minus NM-GE, new glands", *SHOWN),)),
        stand_in=True,
    ),
    Claim(
        "ose-ssl.glands.first", f"{GLANDS}: of the first five retrieved for a new gland more have its class",
        "5.2, Fig. 2", "a picture", GLANDS, Above((_at("precision at 5 of OSE-SSL minus NM-GE, new glands", *SHOWN),)),
        stand_in=True,
    ),
    Claim(
        "ose-ssl.glands.more", f"{GLANDS}: a higher S gives a higher AUPRC (90 % against 30 %, M = 90 %)", "5.2",
        "higher", GLANDS, Above((_at("AUPRC of S = 90 % minus", 0.9, 0.3),)), stand_in=True,
    ),
    Claim(
        "ose-ssl.glands.ninety", f"{GLANDS}: for large S only M > 90 % is as good as all glands", "5.2, Fig. 1d",
        "M = 90 %", GLANDS,
        All((
            alike(_at("AUPRC of OSE-SSL minus SSGE", 0.9, 0.9)),
            Between((_at("AUPRC of OSE-SSL minus SSGE", 0.5, 0.9),), -1.0, -ALIKE),
        )), stand_in=True,
    ),
)  # fmt: skip


def pieces(*, quick: bool = False) -> list[Piece]:
    """Both distances; quick: 5 draws instead of 10."""
    return [
        Piece(
            f"ose-ssl-glands-{method.replace('_', '-')}", "ose-ssl", figure_1,
            {"method": method, "seeds": 5 if quick else 10}, GLANDS, cost=30,
        )
        for method in METHODS
    ]  # fmt: skip


@dataclass(frozen=True)
class Glands:
    """Contours, class and patient of whole glands, and the picture that each lies in."""

    contours: list[Matrix]
    label: Any
    patient: Any
    image: list[str]


def whole_glands() -> Glands:
    """Glands that the border of their image does not cut: healthy, adenomatous or malignant."""
    from clearfold import datasets
    from clearfold.objects import Objects

    data = datasets.load_glas()
    kinds = np.where(np.asarray(data.y) == "benign", data.table["subgrade"], "malignant")
    contours, rows = [], []
    for path, mask, kind, patient in zip(data.images, data.masks, kinds, data.groups, strict=True):
        labels = _mask(mask)
        height, width = labels.shape
        for contour in Objects.from_labels(labels, kind="gland").contours:
            if contour.min() >= 0 and contour[:, 0].max() <= width - 1 and contour[:, 1].max() <= height - 1:
                contours.append(np.asarray(contour))
                rows.append((str(kind).strip(), str(patient), str(path)))
    label, patient, image = zip(*rows, strict=True)
    return Glands(contours, np.array(label), np.array(patient), list(image))


def _mask(path: Any) -> Any:
    from PIL import Image

    with Image.open(path) as picture:
        return np.array(picture)


def figure_1(method: str, seeds: int) -> Findings:
    """Fig. 1c and d, and the first glands retrieved (Fig. 2)."""
    import pandas as pd

    from clearfold.features.contours import shape_distances

    glands = whole_glands()
    distances = shape_distances(glands.contours, method)
    figures: dict[str, dict[str, Figure]] = {}
    tables, chosen = [], {}
    for protocol in ("printed", "corrected"):
        rows = []
        for seed in range(seeds):
            order = _order(glands, protocol, seed)
            chosen[f"{protocol} {seed}"] = order.tolist()
            cases = [(m, s) for m in TRAINING for s in (0.0, *LABELLED)]
            rows += [_case(distances, glands, protocol, order, seed, *case) for case in cases]
        table = pd.DataFrame(rows)
        tables.append(table.assign(protocol=protocol))
        # The medial axis is nearest to the paper; concavity is shown beside it and decides nothing.
        if method == METHODS[0]:
            figures[protocol] = _figures(table)
    keys = ["protocol", "method", "labelled", "training"]
    summary = pd.concat(tables).groupby(keys, sort=False)[
        ["auprc", "auprc_new", "precision_at_5", "silhouette", "chance"]
    ]
    found = {f"{GLANDS}, {method}": summary.mean().reset_index()}
    if method == METHODS[0]:
        found[f"{GLANDS}: first retrieved"] = retrieved(distances, glands)
    return Findings(figures, found, {"order": chosen}, (f"{len(glands.contours)} whole glands of 1530",))


def _order(glands: Glands, protocol: str, seed: int) -> Any:
    """Glands in the order in which they enter the training set; patients one after the other when corrected."""
    random = np.random.default_rng(seed)
    if protocol == "printed":
        return random.permutation(len(glands.label))
    place = {name: number for number, name in enumerate(random.permutation(np.unique(glands.patient)))}
    return np.argsort([place[name] for name in glands.patient], kind="stable")


def _placed(
    distances: Matrix, glands: Glands, order: Any, seed: int, training: float, labelled: float
) -> tuple[Matrix, Any]:
    """Coordinates of all glands, and which of them made the embedding."""
    rows = order[: round(training * len(order))]
    random = np.random.default_rng([seed, round(100 * training), round(100 * labelled)])
    codes = np.unique(glands.label, return_inverse=True)[1]
    known = np.full(len(rows), -1)
    some = random.permutation(len(rows))[: round(labelled * len(rows))]
    known[some] = codes[rows[some]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClearfoldWarning)
        embedding = GraphEmbedding(n_components=N_COMPONENTS, metric="precomputed")
        embedding.fit(distances[np.ix_(rows, rows)], known if labelled else None)
        coordinates = embedding.transform(distances[:, rows])
    return coordinates, rows


def _case(
    distances: Matrix, glands: Glands, protocol: str, order: Any, seed: int, training: float, labelled: float
) -> dict[str, Any]:
    coordinates, rows = _placed(distances, glands, order, seed, training, labelled)
    part = np.full(len(order), "new")
    part[rows] = "training"
    groups = "each" if protocol == "printed" else glands.patient
    table = retrieval(coordinates, glands.label, groups=groups, parts=part, k=(5,), n_bootstrap=0).table
    whole = training == 1.0
    return {
        "seed": seed,
        "method": ("SSGE" if whole else "OSE-SSL") if labelled else ("GE" if whole else "NM-GE"),
        "training": training,
        "labelled": labelled,
        "auprc": table["micro"]["all"],
        "auprc_new": np.nan if whole else table["micro"]["new"],
        "precision_at_5": np.nan if whole else table["precision_at_5"]["new"],
        "chance": table["chance_micro"]["all"],
        "silhouette": table["silhouette"]["all"],
    }


def _figures(table: pd.DataFrame) -> dict[str, Figure]:
    of = {
        (str(m), round(float(str(t)), 3), round(float(str(s)), 3)): part
        for (m, t, s), part in table.groupby(["method", "training", "labelled"], sort=False)
    }

    def apart(column: str, a: tuple[str, float, float], b: tuple[str, float, float]) -> Figure:
        return mean_figure(of[a][column].to_numpy() - of[b][column].to_numpy())

    found = {}
    for m in TRAINING[:-1]:
        for s in LABELLED:
            own, plain, whole = ("OSE-SSL", m, s), ("NM-GE", m, 0.0), ("SSGE", 1.0, s)
            found[_at("SI of OSE-SSL", m, s)] = mean_figure(of[own]["silhouette"])
            found[_at("AUPRC of OSE-SSL", m, s)] = mean_figure(of[own]["auprc"])
            found[_at("AUPRC of OSE-SSL minus NM-GE", m, s)] = apart("auprc", own, plain)
            found[_at("AUPRC of OSE-SSL minus NM-GE, new glands", m, s)] = apart("auprc_new", own, plain)
            name = _at("precision at 5 of OSE-SSL minus NM-GE, new glands", m, s)
            found[name] = apart("precision_at_5", own, plain)
            found[_at("AUPRC of OSE-SSL minus SSGE", m, s)] = apart("auprc", own, whole)
            found[_at("AUPRC of S = 90 % minus", m, s)] = apart("auprc", ("OSE-SSL", m, 0.9), own)
    return found


# Fig. 2 -----------------------------------------------------------------------------------------------------


def retrieved(distances: Matrix, glands: Glands) -> pd.DataFrame:
    """Fig. 2: a new malignant gland and the first five of other patients, by NM-GE and by OSE-SSL.

    The query is the malignant gland, of those held out (seed 0, patients apart), whose number is the middle one: it
    is not chosen by how well it does.
    """
    import pandas as pd

    order = _order(glands, "corrected", 0)
    rows = order[: round(SHOWN[0] * len(order))]
    new = np.setdiff1d(order, rows)
    asking = new[glands.label[new] == "malignant"]
    query = int(asking[len(asking) // 2])
    lines = [("query", 0, query)]
    for method, share in (("NM-GE", 0.0), ("OSE-SSL", SHOWN[1])):
        coordinates, _ = _placed(distances, glands, order, 0, SHOWN[0], share)
        far = np.linalg.norm(coordinates - coordinates[query], axis=1)
        far[glands.patient == glands.patient[query]] = np.inf
        lines += [(method, place + 1, int(row)) for place, row in enumerate(np.argsort(far, kind="stable")[:N_HITS])]
    columns = ["method", "place", "gland", "label", "picture", "outline"]
    return pd.DataFrame(
        [[method, place, row, str(glands.label[row]), *_picture(glands, row)] for method, place, row in lines],
        columns=columns,
    )


def _picture(glands: Glands, row: int) -> tuple[str, str]:
    """The gland cut out of its image as a JPEG in base64, and its outline in that picture as text x,y x,y ..."""
    from PIL import Image

    contour = glands.contours[row]
    low, high = contour.min(axis=0) - MARGIN, contour.max(axis=0) + MARGIN
    middle, half = (low + high) / 2, float((high - low).max()) / 2
    box = tuple(round(float(v)) for v in (*(middle - half), *(middle + half)))
    with Image.open(glands.image[row]) as image:
        small = image.convert("RGB").crop(box).resize((SIDE, SIDE))  # type: ignore[arg-type]
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=80)
    inside = (contour - [box[0], box[1]]) * SIDE / (box[2] - box[0])
    step = max(1, len(inside) // 60)
    outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in inside[::step])
    return base64.b64encode(buffer.getvalue()).decode(), outline
