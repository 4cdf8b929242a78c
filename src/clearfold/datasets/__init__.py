"""Data to try things on: drawn tissue of which everything is known, and the public sets of the papers."""

from clearfold.datasets.cohort import SyntheticCohort, synthetic_cohort
from clearfold.datasets.dataset import Dataset
from clearfold.datasets.loaders import (
    load_arcene,
    load_dexter,
    load_gisette,
    load_golub,
    load_kather,
    load_madelon,
    load_mibc,
    load_swiss_roll,
    load_ucsb,
    load_wdbc,
    load_wpbc,
)
from clearfold.datasets.pictures import load_glas, load_nuclei_gbm40, load_nuclei_ucsb26, load_prostate_tma
from clearfold.datasets.synthetic import SyntheticTissue, Truth, synthetic_tissue
from clearfold.errors import DatasetError, DatasetMissingError

__all__ = [
    "Dataset",
    "DatasetError",
    "DatasetMissingError",
    "SyntheticCohort",
    "SyntheticTissue",
    "Truth",
    "load_arcene",
    "load_dexter",
    "load_gisette",
    "load_glas",
    "load_golub",
    "load_kather",
    "load_madelon",
    "load_mibc",
    "load_nuclei_gbm40",
    "load_nuclei_ucsb26",
    "load_prostate_tma",
    "load_swiss_roll",
    "load_ucsb",
    "load_wdbc",
    "load_wpbc",
    "synthetic_cohort",
    "synthetic_tissue",
]
