"""`assay up` and `assay down`, with stand-ins for the services.

    assay_with_stand_ins.py up|detach|down BEHAVIOURS DATA PORT

BEHAVIOURS is like `grader=stubborn,leaderboard=broken`, or `-`.
"""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from assay_local import commands, detached

_STAND_IN = Path(__file__).with_name("stand_in.py")


def with_stand_ins(behaviours: str) -> None:
    """Give the services' programs other commands; everything else is as for the real ones."""
    from assay_local import installation

    known = dict(one.split("=") for one in behaviours.split(",") if "=" in one)
    real = installation.assay_services

    def stand_ins(*where):
        return [
            replace(
                program,
                command=[
                    *(sys.executable, str(_STAND_IN)),
                    *(program.name, known.get(program.name, "ordinary")),
                ],
                grace_seconds=1.0,
            )
            for program in real(*where)
        ]

    installation.assay_services = stand_ins


def main(verb: str, behaviours: str, data: str, port: str, descriptor: str = "") -> int:
    """Do as the command does."""
    match verb:
        case "down":
            return commands.down(Path(data))
        case "detach":
            here = [sys.executable, __file__, "serve", behaviours]
            commands.start_detached = partial(detached.start_detached, command=here)
            return commands.up(Path(data), int(port), detach=True)
        case "serve":
            from assay_local import background

            with_stand_ins(behaviours)
            return background.main([data, port, descriptor])
        case _:
            with_stand_ins(behaviours)
            return commands.up(Path(data), int(port), detach=False)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
