"""One tree of exceptions and one of warnings.

ClearfoldError
├── InputError (also ValueError)        what came cannot be used: says what came, what was wanted, what to do
│   ├── InputTypeError (also TypeError) what came is of a kind that holds no numbers
│   ├── TableError                      a file or a column of a table
│   ├── ImageError                      an image or a slide cannot be read
│   ├── ObjectsError                    outlines or a label mask cannot be read or do not fit the image
│   ├── ArchiveError                    a file or a server is not an archive that can be used
│   └── DatasetError                    files of a public set are not what they should be
│       └── DatasetMissingError         a public set is not here and cannot be fetched
├── MissingExtraError (also ImportError) an optional dependency is not installed
└── ConvergenceError (also RuntimeError) an eigenproblem did not give what was asked

ClearfoldWarning (also UserWarning)
├── DisconnectedGraphWarning            the neighbour graph fell apart and was bridged
├── DuplicateSamplesWarning             some samples coincide
├── NearEqualEigenvaluesWarning         axes may rotate within a subspace: importance is not rotation invariant
├── NullSpaceWarning                    local weights leave coordinates undetermined; neighbours were added
├── IsolatedQueryWarning                a new sample has no affinity to any fitted one
├── LabelFreeWarning                    labels have no influence on the importance of features
├── UnequalScalesWarning                features of very different scales were not standardised
├── FewPatientsWarning                  a class has so few patients that rounds cannot vary them
├── FewDistinctCellsWarning             moving the sites of a tessellation gave the same few cells
├── NothingAboveNullWarning             no region knows more of the labels than of shuffled ones
├── UnknownScaleWarning                 nobody said how many micrometres a pixel has
├── ObjectsOutsideWarning               some outlines lie outside the image or were mended
└── UnfamiliarQueryWarning              a query lies outside what the archive has seen
"""

import sys
import warnings


class ClearfoldError(Exception):
    """Anything that clearfold raises on purpose."""


class InputError(ClearfoldError, ValueError):
    """What came cannot be used."""


class InputTypeError(InputError, TypeError):
    """What came is of a kind that cannot be used."""


class TableError(InputError):
    """A table cannot be read, written or understood."""


class ImageError(InputError):
    """An image or a slide cannot be read."""


class ObjectsError(InputError):
    """Outlines or a label mask cannot be read, or do not fit the image."""


class ArchiveError(InputError):
    """A file or a server is not an archive that can be used."""


class DatasetError(InputError):
    """Files of a public set are not what they should be, or cannot be fetched."""


class DatasetMissingError(DatasetError):
    """A public set is not here and cannot be fetched."""


class MissingExtraError(ClearfoldError, ImportError):
    """An optional dependency is not installed."""


class ConvergenceError(ClearfoldError, RuntimeError):
    """An eigenproblem did not give what was asked."""


class ClearfoldWarning(UserWarning):
    """Anything that clearfold warns of on purpose."""


class DisconnectedGraphWarning(ClearfoldWarning):
    """The neighbour graph fell apart and was bridged."""


class DuplicateSamplesWarning(ClearfoldWarning):
    """Some samples coincide."""


class NearEqualEigenvaluesWarning(ClearfoldWarning):
    """Two leading eigenvalues are nearly equal: their axes are not determined."""


class NullSpaceWarning(ClearfoldWarning):
    """Local weights leave coordinates undetermined; neighbours were added."""


class IsolatedQueryWarning(ClearfoldWarning):
    """A new sample has no affinity to any fitted one."""


class LabelFreeWarning(ClearfoldWarning):
    """Labels have no influence on the importance of features."""


class UnequalScalesWarning(ClearfoldWarning):
    """Features of very different scales were not standardised."""


class FewPatientsWarning(ClearfoldWarning):
    """A class has so few patients that rounds cannot vary them."""


class FewDistinctCellsWarning(ClearfoldWarning):
    """Moving the sites gave the same few cells again and again."""


class NothingAboveNullWarning(ClearfoldWarning):
    """No region knows more of the labels than of shuffled ones: nothing was ranked."""


class UnknownScaleWarning(ClearfoldWarning):
    """Nobody said how many micrometres a pixel has."""


class ObjectsOutsideWarning(ClearfoldWarning):
    """Some outlines lie outside the image or were mended."""


class UnfamiliarQueryWarning(ClearfoldWarning):
    """A query lies outside what the archive has seen."""


def warn(message: str, category: type[ClearfoldWarning]) -> None:
    """Warn at the line outside clearfold (and scikit-learn's wrappers) that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("clearfold.", "sklearn.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
