"""Secret values for one run: from a dotenv file, then from the environment.

The file's rules: blank lines and lines that start with `#` are skipped, `export NAME=` is accepted,
one matching pair of quotes around a value is taken off, and a value is one line. A line that cannot
be read is named by its number, and what it holds is never repeated.
"""

import re
from collections.abc import Iterable, Mapping

from assay_client.errors import InvalidInputError

_LINE = re.compile(
    r"^\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=(?P<value>.*)$", re.DOTALL
)
_QUOTES = ("'", '"')


def parse_dotenv(text: str, source: str) -> dict[str, str]:
    """Names and values of a dotenv file; the last of several with one name counts.

    Args:
        text: what the file holds.
        source: its name, for messages.

    Raises:
        InvalidInputError: lines that are not `NAME=value`, by their numbers.
    """
    values: dict[str, str] = {}
    unreadable: list[int] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.match(line)
        if found is None:
            unreadable.append(number)
        else:
            values[found["name"]] = _unquoted(found["value"].strip())
    if unreadable:
        lines = ", ".join(str(number) for number in unreadable)
        noun = "line" if len(unreadable) == 1 else "lines"
        raise InvalidInputError(
            f"{source}, {noun} {lines}: not NAME=value", "a value is one line, quoted or not"
        )
    return values


def resolve_run_secrets(
    required: Iterable[str], given: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Values for the names that a run's `[secrets].required` lists: the file's, then those of the
    environment. A name with neither is left to the server, which may hold a record of it."""
    found: dict[str, str] = {}
    for name in required:
        value = given.get(name) or environment.get(name)
        if value:
            found[name] = value
    return found


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in _QUOTES:
        return value[1:-1]
    return value
