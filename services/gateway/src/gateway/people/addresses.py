"""The address under which people reach the gateway, for what is passed on to them."""

from typing import Annotated

from fastapi import Depends, Request


def public_address(request: Request) -> str:
    """Without a slash at its end: as set, else as the request came."""
    configured: str | None = request.app.state.public_url
    return (configured or str(request.base_url)).rstrip("/")


def is_encrypted(request: Request) -> bool:
    """Whether people reach the gateway by HTTPS, also where a proxy ends that before it."""
    return public_address(request).startswith("https://")


PublicAddress = Annotated[str, Depends(public_address)]
