"""Made-up requests over the whole OpenAPI description: nothing breaks, no answer is undocumented.

`ASSAY_FUZZ_EXAMPLES` sets how many requests of each phase are made for each route; `make fuzz`
makes ten thousand in all.
"""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn

from assay_local.embedded import free_port

SEED = "20261202"
EXAMPLES = os.environ.get("ASSAY_FUZZ_EXAMPLES", "4")
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance,response_headers_conformance"
)
LEFT_OUT = (
    "/readyz",  # rightly says that the other services are not here
    "/api/v1/sql",  # has no role of its own to query with here
    "/api/v1/session",  # signs the one out that asks
    "/api/v1/system/replay",  # waits for services that are not here
)
"""Routes that made-up requests would end the test itself with."""

REAL = """
[[operations]]
include-path-regex = "^/api/v1/runs/"
parameters = {{ "path.ref" = "{run}", "path.slot_id" = "{slot}" }}

[[operations]]
include-path-regex = "^/api/v1/benchmarks/"
parameters = {{ "path.ref" = "{benchmark}" }}

[[operations]]
include-path-regex = "leaderboard$"
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "503"]
"""
"""What the made-up requests ask for, so that they get past `not found`. A past moment's standings
come from the leaderboard service, which is not here: 503 is the right answer."""


@asynccontextmanager
async def served(app):
    """The application on a port of this machine."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(60):
        while not server.started:
            await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


async def test_nothing_breaks_and_no_answer_is_undocumented(stage, tmp_path):
    benchmark = await stage.add_benchmark()
    run = (await stage.submit())["id"]
    await stage.decide(run, "queued", "started")
    slot = await stage.result(run, "fix-roman")
    config = tmp_path / "schemathesis.toml"
    config.write_text(REAL.format(run=run, slot=slot, benchmark=benchmark))
    command = Path(sys.executable).with_name("schemathesis")
    left_out = [word for path in LEFT_OUT for word in ("--exclude-path", path)]
    description = tmp_path / "openapi.json"
    description.write_text(json.dumps(stage.app.openapi()))  # it waits ten seconds at most for it
    async with served(stage.app) as address:
        running = await asyncio.create_subprocess_exec(
            str(command),
            "--config-file",
            str(config),
            "run",
            str(description),
            "--url",
            address,
            "--header",
            f"Authorization: Bearer {stage.admin_token}",
            "--checks",
            CHECKS,
            "--phases",
            "examples,coverage,fuzzing",
            "--max-examples",
            EXAMPLES,
            "--seed",
            SEED,
            "--request-timeout",
            "30",
            "--continue-on-failure",
            "--suppress-health-check",
            "all",
            "--generation-database",
            "none",
            "--no-color",
            *left_out,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed = (await running.communicate())[0].decode()
    sys.stdout.write(printed)
    assert running.returncode == 0, printed
