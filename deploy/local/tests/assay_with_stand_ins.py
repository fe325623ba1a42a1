"""`assay up` and `assay down`, with stand-ins for the services.

    assay_with_stand_ins.py up|detach|down BEHAVIOURS DATA PORT

BEHAVIOURS is like `grader=stubborn,leaderboard=broken`, or `-`.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from assay_local import commands, detached
from assay_local.environment import Addresses
from assay_local.folder import DataFolder
from assay_local.installation import assay_services, run_platform
from assay_local.program import Program

_STAND_IN = Path(__file__).with_name("stand_in.py")


class StandIns:
    """The services' programs with other commands; everything else is as for the real ones."""

    def __init__(self, behaviours: str) -> None:
        self._behaviours = dict(
            behaviour.split("=") for behaviour in behaviours.split(",") if "=" in behaviour
        )

    def __call__(
        self, folder: DataFolder, addresses: Addresses, caller: Mapping[str, str]
    ) -> Sequence[Program]:
        """The programs."""
        return [
            replace(program, command=self._command(program.name), grace_seconds=1.0)
            for program in assay_services(folder, addresses, caller)
        ]

    def _command(self, service: str) -> list[str]:
        return [
            *(sys.executable, str(_STAND_IN)),
            *(service, self._behaviours.get(service, "ordinary")),
        ]


def main(verb: str, behaviours: str, data: str, port: str, descriptor: str = "") -> int:
    """Do as the command does."""
    if verb == "down":
        return commands.down(Path(data))
    if verb == "serve":
        return detached.main([data, port, descriptor], StandIns(behaviours))
    here = [sys.executable, __file__, "serve", behaviours]
    commands.run_platform = partial(run_platform, services=StandIns(behaviours))
    commands.start_detached = partial(detached.start_detached, command=here)
    return commands.up(Path(data), int(port), detach=verb == "detach")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
