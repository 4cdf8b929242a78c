"""Frames of other libraries."""

from typing import Any

import pandas as pd


def as_frame(table: Any) -> Any:
    """A frame of polars or a table of Arrow as one of pandas; anything without `to_pandas` stays as it is."""
    if isinstance(table, pd.DataFrame | pd.Series) or not hasattr(table, "to_pandas"):
        return table
    return table.to_pandas()
