"""Writes the examples that the API's description shows: answers of a platform that is at work.

Run on a platform of its own, on which `assay demo` has run and nothing else:

    assay demo --data FOLDER --port PORT
    python tests/contract/make_answer_examples.py FOLDER PORT

It makes a user, a workspace, a token and a broken event, and changes nothing that is already there.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import nats

from assay_local.folder import DataFolder
from gateway.openapi import shape_of

EXAMPLES = Path(__file__).parents[2] / "services/gateway/src/gateway/answer_examples.json"
ONCE = {"token", "code", "device_code", "user_code", "url", "verification_uri_complete"}
"""What opens a door: an example shows that it is there, and not what it was."""
MOST_ITEMS, MOST_CHARACTERS = 2, 200
CONFIG = {"experiment": {"benchmark": "demo"}, "agents": [{"harness": "oracle"}]}
BODY = {"config": CONFIG}
IMPORT = {
    "benchmark": "demo",
    "agents": [{"harness": "codex", "model": "openai/gpt-5.2"}],
    "attempts_per_task": 1,
    "source": {"kind": "table", "digest": "ab" * 32},
}


class Recorder:
    """Asks, and keeps what was answered under the name of its schema."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self.kept: dict[str, Any] = {}
        document = client.get("/openapi.json").raise_for_status().json()
        self._operations = {
            (method.upper(), path): operation
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
        }

    def ask(self, method: str, path: str, body: object = None, **parameters: Any) -> Any:
        """The whole answer."""
        sent = {} if body is None else {"json": body}
        address = f"/api/v1{path}"
        answer = self.client.request(method, address, params=parameters, **sent)
        if answer.is_error:
            raise SystemExit(f"{method} {path}: {answer.status_code} {answer.text}")
        if answer.status_code != httpx.codes.NO_CONTENT:
            shape = shape_of(self._schema(method, address, str(answer.status_code)))
            self.kept[shape] = shortened(answer.json())
            if listed := re.fullmatch(r"Page_(\w+)_", shape):
                self.kept.setdefault(listed[1], next(iter(self.kept[shape]["items"]), None))
            return answer.json()
        return None

    def _schema(self, method: str, address: str, status: str) -> dict[str, Any]:
        fitting = [
            operation
            for (verb, path), operation in self._operations.items()
            if verb == method and re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", path), address)
        ]
        exact = self._operations.get((method, address), fitting[0])
        schema: dict[str, Any] = exact["responses"][status]["content"]["application/json"]["schema"]
        return schema

    def until(self, path: str, ready: Any, **parameters: Any) -> Any:
        """An answer that is as wanted, within a minute."""
        deadline = time.monotonic() + 60
        while not ready(answer := self.ask("GET", path, **parameters)):
            if time.monotonic() > deadline:
                raise SystemExit(f"{path} did not become what was waited for: {answer}")
            time.sleep(0.2)
        return answer


def shortened(answer: Any, name: str = "") -> Any:
    """An answer that can be read at a glance."""
    if isinstance(answer, dict):
        return {key: shortened(value, key) for key, value in answer.items()}
    if isinstance(answer, list):
        return [shortened(one) for one in answer[:MOST_ITEMS]]
    if isinstance(answer, str):
        return "…" if name in ONCE else answer[:MOST_CHARACTERS]
    return answer


def record(recorder: Recorder, data: DataFolder) -> None:
    """Ask for one answer of every schema."""
    of_people(recorder)
    of_benchmarks_and_runs(recorder)
    of_the_system(recorder, data)


def of_people(recorder: Recorder) -> None:
    """Users, workspaces, tokens, devices and what was done."""
    ask = recorder.ask
    ask("POST", "/users", {"name": "ada", "email": "ada@example.org"})
    ask("POST", "/users/ada/invitation")
    ask("PATCH", "/users/ada", {"disabled": False})
    ask("GET", "/users")
    ask("POST", "/workspaces", {"name": "lab", "owner": "ada"})
    ask("PATCH", "/workspaces/lab", {"repository": "acme/lab"})
    ask("PUT", "/workspaces/default/members/ada", {"role": "member"})
    for path in ("/session", "/workspaces", "/workspaces/lab/members"):
        ask("GET", path)
    ask("POST", "/tokens", {"name": "nightly"})
    ask("GET", "/tokens")
    login = ask("POST", "/device", {"device_name": "laptop"})
    ask("GET", f"/device/{login['user_code']}")
    ask("PUT", "/secrets/OPENAI_API_KEY", {"value": "an example", "scope": "workspace"})
    ask("GET", "/secrets")
    ask("POST", "/secrets/rotate")
    ask("GET", "/billing")
    recorder.until("/audit", lambda page: len(page["items"]) >= MOST_ITEMS)


def of_benchmarks_and_runs(recorder: Recorder) -> None:
    """The demo's benchmark, its finished run, and runs that are submitted, imported and stopped."""
    ask = recorder.ask
    ask("GET", "/benchmarks")
    ask("GET", "/benchmarks/demo")
    entries = ask("GET", "/benchmarks/demo/leaderboard")["standings"]
    first, second = (named(entry) for entry in entries[:2])
    ask("GET", "/benchmarks/demo/compare", first=first, second=second)
    ask("GET", "/runs")
    run = entries[0]["run_name"]
    ask("GET", f"/runs/{run}")
    agents = ask("GET", f"/runs/{run}/agents")
    results = ask("GET", f"/runs/{run}/results", outcome="failed")["items"]
    ask("GET", f"/runs/{run}/results/{results[0]['slot_id']}")
    ask("GET", f"/runs/{run}/results/{results[0]['slot_id']}/artifacts")
    ask("GET", f"/runs/{run}/explain", agent=named(agents[1]), task=results[0]["task"])
    for path in (f"/runs/{run}/events", f"/runs/{run}/logs", f"/runs/{run}/downloads", "/events"):
        ask("GET", path)
    ask("POST", f"/runs/{run}/downloads/urls", {"items": [{"path": "results.csv"}]})
    ask("POST", "/runs/validate", BODY)
    submitted = ask("POST", "/runs", BODY)["name"]
    ask("POST", f"/runs/{submitted}/stop", {})
    imported = ask("POST", "/runs/import", IMPORT)["name"]
    told = {"agent": 0, "task": results[0]["task"], "attempt": 1, "reward_valid": True}
    told |= {"rewards": {"reward": 1.0}, "seconds": 81.5}
    ask("POST", f"/runs/{imported}/results", {"results": [told]})
    ask("POST", "/sql", {"query": "SELECT name, status FROM runs LIMIT 2"})


def named(entry: dict[str, Any]) -> str:
    """An entrant, as comparisons and explanations name it."""
    harness, model = entry["harness"], entry["model"]
    return harness if model in {None, "none"} else f"{harness}/{model}"


def of_the_system(recorder: Recorder, data: DataFolder) -> None:
    """How the services are, what is folded again, and an event that cannot be read."""
    ask = recorder.ask
    ask("GET", "/system/status")
    ask("GET", "/sandboxes")
    ask("POST", "/system/replay", {"verify": True, "service": "leaderboard"})
    asyncio.run(tell_what_cannot_be_read(data))
    letters = recorder.until("/deadletters", lambda page: page["items"])["items"]
    ask("GET", f"/deadletters/{letters[0]['id']}")


async def tell_what_cannot_be_read(data: DataFolder) -> None:
    """Put into the stream what no service can fold."""
    user = f"operator:{data.credential('nats', 'operator')}"
    client = await nats.connect(f"nats://{user}@127.0.0.1:{data.nats_port}")
    broken = json.dumps({"type": "submitted", "version": 1}).encode()
    await client.jetstream().publish("runs.default.broken.lifecycle.submitted", broken)
    await client.close()


def missing(recorder: Recorder) -> Iterator[str]:
    """Schemas of answers that nothing was kept of."""
    for operation in recorder._operations.values():
        for status, answer in operation["responses"].items():
            schema = answer.get("content", {}).get("application/json", {}).get("schema") or {}
            shape = shape_of(schema)
            if status.startswith("2") and shape and shape not in recorder.kept:
                yield shape


def main(folder: str, port: str) -> None:
    """Ask everything, and write what was answered."""
    data = DataFolder(Path(folder))
    token = (data.root / "admin-token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=120) as client:
        recorder = Recorder(client)
        record(recorder, data)
    kept = json.dumps(dict(sorted(recorder.kept.items())), indent=1, ensure_ascii=False)
    kept = re.sub(rf"127\.0\.0\.1:{port}", "assay.example", kept).replace(folder, "/data")
    EXAMPLES.write_text(kept + "\n")
    sys.stdout.write(f"{len(recorder.kept)} examples; none of: {sorted(set(missing(recorder)))}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
