"""Which earlier cases look like this one? A store of cases: one file, or PostgreSQL, behind one interface."""

from clearfold.archive.archive import Archive
from clearfold.archive.store import Added, Case, Near, Version

__all__ = ["Added", "Archive", "Case", "Near", "Version"]
