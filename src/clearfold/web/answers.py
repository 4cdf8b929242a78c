"""What goes out: JSON without NaN, arrays in plotly's form, and refusals with a status and a sentence."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from starlette.responses import Response


class Refused(Exception):
    """A request that is not answered: the HTTP status, and what a person should read."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    @property
    def error(self) -> dict[str, Any]:
        """As the API says it."""
        return {"status": self.status, "message": self.message}


class Json(Response):
    """JSON; what is not a number becomes null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Compact UTF-8."""
        text = json.dumps(plain(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")


def picture(jpeg: bytes, seconds: int = 300) -> Response:
    """A JPEG that the browser may keep for itself."""
    return Response(jpeg, media_type="image/jpeg", headers={"Cache-Control": f"private, max-age={seconds}"})


def plain(value: Any) -> Any:
    """Numbers, text, lists and dicts of what came; NaN and infinity become None."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    return None if value != value else str(value)


def array(values: Any, kind: str = "f4") -> dict[str, str]:
    """Many numbers as base64 of little-endian bytes, as plotly takes them: float32 ("f4") or int32 ("i4")."""
    data = np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()
    return {"dtype": kind, "bdata": base64.b64encode(data).decode("ascii")}


def records(frame: Any) -> list[dict[str, Any]]:
    """Rows of a DataFrame."""
    return [plain(row) for row in frame.to_dict("records")]
