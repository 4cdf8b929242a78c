"""Drawings: each function takes data and perhaps an `ax`, and returns the Axes it drew on.

Figures are plain `matplotlib.figure.Figure` objects: nothing here needs a display or changes pyplot's state.
Colours are those of Okabe and Ito with two of Tol, which colour-blind readers can tell apart; markers change
when colours recur.
"""

from clearfold.plot.curves import curve, lines
from clearfold.plot.files import PICTURES, grid, save, to_svg
from clearfold.plot.overlay import heat_map, overlay
from clearfold.plot.points import maps, scatter
from clearfold.plot.ranking import family_bars, importance_bars, rank_table
from clearfold.plot.retrieval import pictures, precision_recall
from clearfold.plot.saliency import region_map, saliency_bars, saliency_figure
from clearfold.plot.stability import stability_accuracy
from clearfold.plot.style import COLOURS, GREY, INK, STYLES
from clearfold.plot.survival import survival_curves

__all__ = [
    "COLOURS",
    "GREY",
    "INK",
    "PICTURES",
    "STYLES",
    "curve",
    "family_bars",
    "grid",
    "heat_map",
    "importance_bars",
    "lines",
    "maps",
    "overlay",
    "pictures",
    "precision_recall",
    "rank_table",
    "region_map",
    "saliency_bars",
    "saliency_figure",
    "save",
    "scatter",
    "stability_accuracy",
    "survival_curves",
    "to_svg",
]
