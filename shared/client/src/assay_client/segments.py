"""References as parts of a path."""

from urllib.parse import quote

from assay_client.errors import InvalidInputError


def segment(ref: str) -> str:
    """A reference as one segment of a path, whatever characters it holds.

    Raises:
        InvalidInputError: it is blank.
    """
    if not ref.strip():
        raise InvalidInputError("a key, a name or an id is needed, and this one is blank")
    encoded = quote(ref, safe="")
    return encoded.replace(".", "%2E") if encoded in {".", ".."} else encoded
