"""Keeping the runner's own environment variables out of trials.

Harbor fills `${NAME}` in a task's configuration, and the keys that harnesses look for, from the
variables of its process. Neither may reach what the runner was given for itself.
"""

import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
_SENSITIVE = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|AUTH", re.IGNORECASE)
_OURS = "ASSAY_"
_PREFIXES = {"gke": "GOOGLE_", "ec2": "AWS_"}


class HostVariableRefusedError(ValueError):
    """The task asks for a variable of the runner's own; the message names it."""


def withhold_secrets(variables: MutableMapping[str, str], environment: str) -> None:
    """Remove what nobody in this process needs once its settings are read.

    What `environment`, one of Harbor's own, is reached with is kept: variables that begin with its
    name, or with its vendor's.
    """
    kept = _PREFIXES.get(environment, f"{environment.upper().replace('-', '_')}_")
    for name in list(variables):
        if name.startswith(_OURS) or (_SENSITIVE.search(name) and not name.startswith(kept)):
            del variables[name]


def refuse_host_variables(task_dir: Path, given: Collection[str]) -> None:
    """Check that a task's configuration takes nothing from this process's variables.

    `given` are the verifier's variables that this try replaces anyway.

    Raises:
        HostVariableRefusedError: it does.
    """
    path = task_dir / "task.toml"
    if not path.is_file():
        return
    for table, name, value in _strings(tomllib.loads(path.read_text())):
        if table.endswith("verifier.env") and name in given:
            continue
        for wanted in _REFERENCE.findall(value):
            if wanted in os.environ:
                raise HostVariableRefusedError(
                    f"the task's [{table}] takes {wanted} from the runner's own environment, "
                    "which is not passed on; add a secret of that name instead"
                )


def verifier_variables(task_dir: Path, given: Mapping[str, str]) -> dict[str, str]:
    """`given`, and the verifier's own variables that are made of one of them."""
    path = task_dir / "task.toml"
    if not path.is_file():
        return dict(given)
    made = {
        name: given[reference[1]]
        for table, name, value in _strings(tomllib.loads(path.read_text()))
        if table.endswith("verifier.env")
        and (reference := _REFERENCE.fullmatch(value))
        and reference[1] in given
    }
    return {**made, **given}


def _strings(value: Any, table: str = "", name: str = "") -> Iterator[tuple[str, str, str]]:
    """Every string in a configuration, with its table and its name there."""
    if isinstance(value, str):
        yield table, name, value
    elif isinstance(value, dict):
        below = f"{table}.{name}".strip(".")
        for key, one in value.items():
            yield from _strings(one, below, key)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one, table, name)
