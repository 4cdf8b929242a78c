"""The page behind `clearfold serve`: search by image, the map of cases, the reasons; and the same as an HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearfold.web.app import create_app
    from clearfold.web.settings import Settings

__all__ = ["Settings", "create_app"]


def __getattr__(name: str) -> Any:
    """FastAPI is imported when somebody serves; the worker process, which imports this too, never needs it."""
    if name == "Settings":
        from clearfold.web.settings import Settings

        return Settings
    if name == "create_app":
        from clearfold.web.app import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
