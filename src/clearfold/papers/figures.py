"""The papers' figures, drawn from the tables of a reproduction."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from clearfold.papers.reproduction import Reproduction

CLASSES = {"healthy": "#E69F00", "adenomatous": "#56B4E9", "malignant": "#009E73"}


def drawings(found: Reproduction, paper: str) -> Iterator[tuple[str, str, Figure]]:
    """Name, caption and drawing of every figure of a paper that its tables allow."""
    yield from {"fine": _fine, "vink": _vink, "ose-ssl": _ose_ssl, "bose": _bose, "rve": _none}[paper](found)


def _none(found: Reproduction) -> Iterator[tuple[str, str, Figure]]:
    return iter(())


def _fine(found: Reproduction) -> Iterator[tuple[str, str, Figure]]:
    from clearfold.plot import stability_accuracy

    for names, what in (
        (("Madelon", "Arcene", "Dexter", "Gisette"), "Fig. 3"),
        (("bladder cores", "WPBC", "WDBC"), "Fig. 4"),
    ):
        for protocol in ("printed", "corrected"):
            title = "{}, " + protocol + ": AUC against Jaccard"
            tables = {name: found.table(title.format(name)) for name in names}
            there = {name: table for name, table in tables.items() if table is not None}
            if there:
                stand_in = "" if what == "Fig. 3" else " on stand-ins"
                caption = (
                    f"FINE {what}{stand_in}, protocol as {protocol}: AUC against the Jaccard index. Circles: features "
                    "by FINE; diamonds: by clearfold's own ranking; triangles: by filters; squares: embedding vectors, "
                    "which have no Jaccard index and stand at the left edge. Outline: black LR, green SVM, red forest."
                )
                yield f"fine-{what[-1]}-{protocol}", caption, stability_accuracy(there)
    for protocol in ("printed", "corrected"):
        curves = found.table(f"WPBC, {protocol}: survival")
        if curves is not None:
            yield f"fine-6-{protocol}", _survival_caption(protocol), _survival(curves)


def _survival_caption(protocol: str) -> str:
    how = (
        "groups that saw their own outcome (as printed)"
        if protocol == "printed"
        else "groups made out of fold (corrected)"
    )
    return f"FINE Fig. 6 on WPBC, a stand-in: recurrence by risk from the five top features, {how}. Time in months."


def _survival(curves: pd.DataFrame) -> Figure:
    from clearfold.plot.survival import survival_curves

    return _figure(survival_curves(curves, title="risk"))


def _vink(found: Reproduction) -> Iterator[tuple[str, str, Figure]]:
    from clearfold.papers.vink import TITLES

    title = "{}, printed: k features against all"
    tables = {name: found.table(title.format(name)) for name in TITLES.values()}
    there = {name: table for name, table in tables.items() if table is not None}
    if there:
        caption = (
            "VINK Fig. 2 on stand-ins: an embedding of the k most important features (five; two of seven) beside one "
            "of all features. Bars are 95 % intervals of the mean over rounds."
        )
        yield "vink-2", caption, kept_against_all(there)


def kept_against_all(tables: dict[str, pd.DataFrame]) -> Figure:
    """Pairs of bars for each embedding, one panel for each set."""
    from clearfold.plot import COLOURS, grid

    figure, axes = grid(len(tables), width=2.6, height=3.2)
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        measure = str(table.columns[2])
        for shift, (kind, colour) in enumerate((("all", COLOURS[4]), ("kept", COLOURS[0]))):
            rows = [
                table[table["method"] == (f"{e} coordinates" if kind == "all" else f"FINE {e}")].iloc[0] for e in _E
            ]
            at = np.arange(len(_E)) + 0.4 * shift - 0.2
            heights = np.array([row[measure] for row in rows], dtype=float)
            ends = np.array([[row["low"], row["high"]] for row in rows], dtype=float)
            ax.bar(at, heights, 0.38, color=colour, label="all features" if kind == "all" else "k features")
            ax.vlines(at, ends[:, 0], ends[:, 1], color="#262626", linewidth=1.2)
        ax.set_xticks(range(len(_E)), _E, rotation=45)
        ax.set_title(name.replace(", ", "\n"), loc="left", fontsize=10)
        ax.set_ylabel(measure)
        if measure == "AUC":
            ax.set_ylim(0.4, 1.0)
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    return figure


_E = ("PCA", "KPCA", "Isomap", "LE")


def _ose_ssl(found: Reproduction) -> Iterator[tuple[str, str, Figure]]:
    for setting in ("wide", "tight"):
        table = found.table(f"Swiss roll, {setting} neighbourhood")
        if table is not None:
            caption = (
                f"OSE-SSL Fig. 1a and b, {setting} neighbourhood. The lines of GE and SSGE at M = 100 % are the goal."
            )
            yield f"ose-ssl-1-{setting}", caption, against_training(table)
    for method in ("medial_axis", "concavity"):
        table = found.table(f"GlaS glands, {method}")
        if table is not None:
            for protocol, part in table.groupby("protocol", sort=False):
                how = "glands drawn" if protocol == "printed" else "patients apart"
                caption = (
                    f"OSE-SSL Fig. 1c and d on GlaS, a stand-in: shapes compared by {method.replace('_', ' ')}, {how}."
                )
                yield f"ose-ssl-1-glands-{method}-{protocol}", caption, against_training(part)
    shown = found.table("GlaS glands: first retrieved")
    if shown is not None:
        caption = (
            "OSE-SSL Fig. 2 on GlaS, a stand-in: a new malignant gland and the first five of other patients. The query "
            "is the middle one of its list, not a favourable one. Outline: green malignant, blue adenomatous, orange "
            "healthy."
        )
        yield "ose-ssl-2", caption, retrieved(shown)


def against_training(table: pd.DataFrame) -> Figure:
    """Silhouette and AUPRC against M, a line for each S; goals as dashed lines."""
    from clearfold.plot import COLOURS, grid

    figure, axes = grid(2, width=4.8, height=3.6)
    shares = sorted(set(table["labelled"]))
    for ax, measure, label in zip(axes, ("silhouette", "auprc"), ("silhouette", "AUPRC"), strict=True):
        for number, share in enumerate(shares):
            part = table[table["labelled"] == share].sort_values("training")
            colour = COLOURS[number % len(COLOURS)]
            name = "NM-GE" if share == 0 else f"OSE-SSL, S = {share:.0%}"
            ax.plot(100 * part["training"], part[measure], "-o", color=colour, markersize=4, linewidth=1.5, label=name)
            ax.axhline(float(part[measure].iloc[-1]), color=colour, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        if measure == "auprc":
            ax.axhline(float(table["chance"].mean()), color="#B3B3B3", linewidth=1.2, zorder=0)
        ax.set(xlabel="M, % of samples in the training set", ylabel=label)
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    return figure


def retrieved(table: pd.DataFrame) -> Figure:
    """A query and two rows of hits, each gland with its outline in the colour of its class."""
    from matplotlib.figure import Figure as Canvas
    from PIL import Image

    methods = [name for name in dict.fromkeys(table["method"]) if name != "query"]
    width = int(table["place"].max())
    figure = Canvas(figsize=(1.55 * (width + 1), 1.8 * len(methods)), layout="constrained")
    for line, method in enumerate(methods):
        rows = [
            table[table["method"] == "query"].iloc[0],
            *(row for _, row in table[table["method"] == method].iterrows()),
        ]
        for place, row in enumerate(rows):
            if place == 0 and line:
                continue
            ax = figure.add_subplot(len(methods), width + 1, line * (width + 1) + place + 1)
            with Image.open(io.BytesIO(base64.b64decode(row["picture"]))) as picture:
                ax.imshow(picture.convert("RGB"))
            outline = np.array([[float(v) for v in pair.split(",")] for pair in str(row["outline"]).split()])
            ax.plot(*np.vstack([outline, outline[:1]]).T, color=CLASSES[row["label"]], linewidth=2)
            ax.set_title(f"query\n{row['label']}" if place == 0 else f"{method} {place}\n{row['label']}", fontsize=9)
            ax.set_axis_off()
    return figure


def _bose(found: Reproduction) -> Iterator[tuple[str, str, Figure]]:
    for name in ("prostate patches", "WDBC"):
        maps, curves = found.table(f"{name}: embeddings"), found.table(f"{name}: precision and recall")
        if maps is not None:
            yield (
                f"bose-1-{name.split()[0]}",
                f"BoSE Fig. 1 on {name}, a stand-in: all rows, as printed.",
                _two_maps(maps),
            )
        if curves is not None:
            caption = f"BoSE Fig. 2 on {name}, a stand-in: precision against recall, mean over halves."
            yield f"bose-2-{name.split()[0]}", caption, precision_against_recall(curves)


def _two_maps(table: pd.DataFrame) -> Figure:
    from clearfold.plot import maps

    parts = {str(name): part for name, part in table.groupby("method", sort=False)}
    label = next(iter(parts.values()))["label"].to_numpy()
    return maps({name: part[["1", "2"]].to_numpy(dtype=float) for name, part in parts.items()}, label, width=4.4)


def precision_against_recall(curves: pd.DataFrame) -> Figure:
    """As printed at the left, held out at the right; a line for each method."""
    from clearfold.plot import COLOURS, grid

    figure, axes = grid(2, width=4.6, height=3.6)
    methods = list(dict.fromkeys(curves["method"]))
    for ax, judged in zip(axes, ("as printed", "held out"), strict=True):
        for number, method in enumerate(methods):
            part = curves[(curves["judged"] == judged) & (curves["method"] == method)]
            if len(part):
                ax.plot(
                    part["recall"], part["precision"], color=COLOURS[number % len(COLOURS)], linewidth=1.6, label=method
                )
        ax.set_title(judged, loc="left")
        ax.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    return figure


def _figure(ax: Axes) -> Figure:
    return ax.figure  # type: ignore[return-value]
