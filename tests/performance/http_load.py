"""Asks HTTP servers as fast as they answer, over many connections; a process of its own.

Reads a plan as JSON from standard input: `connections`, `seconds`, `rounds` and `targets` (each a
`port`, the `request` as text, and the `status` that every answer must have). The targets take turns
in each round, so that what disturbs the machine disturbs all of them. Writes as JSON, for each
target, the `rates` (answers a second, one a round) and the `latencies` in seconds (p50 and p99).
"""

import asyncio
import json
import re
import statistics
import sys
import time

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


async def main() -> None:
    """Carry the plan out."""
    plan = json.load(sys.stdin)
    rates = [[] for _ in plan["targets"]]
    latencies = [[] for _ in plan["targets"]]
    for _ in range(plan["rounds"]):
        for place, target in enumerate(plan["targets"]):
            took, seconds = await load(target, plan["connections"], plan["seconds"])
            rates[place].append(len(took) / seconds)
            latencies[place] += took
    told = [
        {
            "rates": rate,
            "p50": statistics.median(took),
            "p99": statistics.quantiles(took, n=100)[98],
        }
        for rate, took in zip(rates, latencies, strict=True)
    ]
    json.dump(told, sys.stdout)


async def load(target: dict, connections: int, seconds: float) -> tuple[list[float], float]:
    """The latencies of all answers within some seconds, and how many seconds it were."""
    began = time.perf_counter()
    found = await asyncio.gather(
        *(ask_again_and_again(target, began + seconds) for _ in range(connections))
    )
    return [one for took in found for one in took], time.perf_counter() - began


async def ask_again_and_again(target: dict, until: float) -> list[float]:
    """The latencies of one connection's answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", target["port"])
    request, took = target["request"].encode(), []
    while (began := time.perf_counter()) < until:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(f"HTTP/1.1 {target['status']} ".encode()):
            raise RuntimeError(f"an answer that was not planned: {head!r}")
        length = _LENGTH.search(head)
        if length is not None:
            await reader.readexactly(int(length[1]))
        took.append(time.perf_counter() - began)
    writer.close()
    await writer.wait_closed()
    return took


if __name__ == "__main__":
    asyncio.run(main())
