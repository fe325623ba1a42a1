"""Pages from templates, with a policy that lets them load nothing but our own style sheet."""

import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.responses import HTMLResponse, Response

_TEMPLATES = Environment(
    loader=PackageLoader("gateway.pages"),
    autoescape=select_autoescape(default=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_STYLE = files("gateway.pages").joinpath("assets", "assay.css").read_bytes()
STYLESHEET = f"assay.{hashlib.sha256(_STYLE).hexdigest()[:16]}.css"
"""Its name changes with its content, so that browsers may keep it for ever."""


def rendered(template: str, status_code: int = 200, **more: Any) -> HTMLResponse:
    """A page."""
    given: dict[str, Any] = {"me": None, "problem": None, "stylesheet": STYLESHEET} | more
    return HTMLResponse(
        _TEMPLATES.get_template(template).render(given),
        status_code=status_code,
        headers={"Content-Security-Policy": _POLICY},
    )


def stylesheet() -> Response:
    """The style sheet."""
    return Response(
        _STYLE,
        media_type="text/css",
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )
