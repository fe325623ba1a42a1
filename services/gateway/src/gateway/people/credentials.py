"""What people prove themselves with: tokens, cookies, codes, passwords; only hashes are kept.

Tokens and codes are random and long enough that one SHA-256 hides them; passwords are not, and get
Argon2.
"""

import asyncio
import hashlib
import secrets
from datetime import timedelta

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

TOKEN_PREFIX = "assay_"  # noqa: S105  the beginning of every token, by which scanners know them
SESSION_LIFETIME = timedelta(days=14)
INVITATION_LIFETIME = timedelta(days=3)
DEVICE_LIFETIME = timedelta(minutes=15)

_CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""No vowels, so that no words come out, and nothing that looks like a digit (RFC 8628, 6.1)."""

_HASHER = PasswordHasher()


def new_token() -> str:
    """A token for the API: 256 random bits."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def new_code() -> str:
    """A cookie, an invitation's or a device's code: 256 random bits."""
    return secrets.token_urlsafe(32)


def new_user_code() -> str:
    """A code that a person types: eight letters in two groups."""
    letters = "".join(secrets.choice(_CODE_LETTERS) for _ in range(8))
    return f"{letters[:4]}-{letters[4:]}"


def as_user_code(typed: str) -> str:
    """A typed code in the form it was given in."""
    letters = "".join(one for one in typed.upper() if one.isalnum())
    return f"{letters[:4]}-{letters[4:]}"


def hashed(credential: str) -> bytes:
    """What is kept of a token or code."""
    return hashlib.sha256(credential.encode()).digest()


async def hash_password(password: str) -> str:
    """What is kept of a password."""
    return await asyncio.to_thread(_HASHER.hash, password)


async def is_password(password: str, kept: str | None) -> bool:
    """Whether it is the password; takes as long where there is none."""
    return await asyncio.to_thread(_verified, password, kept)


def _verified(password: str, kept: str | None) -> bool:
    try:
        return _HASHER.verify(kept or _NOBODYS, password) and kept is not None
    except (VerificationError, InvalidHashError):
        return False


_NOBODYS = _HASHER.hash(secrets.token_urlsafe(32))
