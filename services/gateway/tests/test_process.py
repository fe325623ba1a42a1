"""`python -m gateway` as it runs in a deployment."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx

from assay_local.embedded import free_port

HEADERS = {"Authorization": "Bearer hush-admin-token"}
REQUEST = "01890000-0000-7000-8000-000000000001"


@contextmanager
def running(settings, tmp_path, **more):
    """The process once it answers: itself, its address, and its log, which ends with it."""
    port, log = free_port(), tmp_path / "gateway.log"
    (tmp_path / "token").write_text("hush-admin-token")
    environment = {
        **os.environ,
        "ASSAY_NATS_URL": settings.nats_url.get_secret_value(),
        "ASSAY_DATABASE_URL": settings.database_url.get_secret_value(),
        "ASSAY_BLOB_URL": settings.blob_url,
        "ASSAY_HTTP_PORT": str(port),
        "ASSAY_ADMIN_TOKEN_FILE": str(tmp_path / "token"),
        **more,
    }
    base = f"http://127.0.0.1:{port}"
    with log.open("wb") as opened:
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway"], env=environment, stderr=opened, stdout=opened
        )
    try:
        deadline = time.monotonic() + 120
        while not _answers(base):
            assert time.monotonic() < deadline, log.read_text()
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield process, base, log
    finally:
        process.kill()
        process.wait()


def _answers(base):
    try:
        return httpx.get(f"{base}/healthz").is_success
    except httpx.TransportError:
        return False


def test_it_serves_until_told_to_stop_and_then_ends_at_once_and_clean(settings, tmp_path):
    with running(settings, tmp_path) as (process, base, log):
        ready = httpx.get(f"{base}/readyz", timeout=10)
        assert ready.status_code == 503
        assert "gateway" not in ready.json()["missing"]
        assert httpx.get(f"{base}/api/v1/runs", headers=HEADERS).json()["items"] == []
        added = httpx.post(
            f"{base}/api/v1/benchmarks",
            json={"source": {"kind": "folder", "path": "/toy"}},
            headers=HEADERS | {"X-Request-ID": REQUEST},
            timeout=20,
        )
        assert (added.status_code, added.headers["X-Request-ID"]) == (201, REQUEST)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert "hush" not in log.read_text()
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    of_request = {one["event"] for one in logged if one.get("correlation_id") == REQUEST}
    # The second is logged without naming the id, which goes with all that a request leads to.
    assert {"decided", "read-model-lags"} <= of_request


def test_it_takes_its_master_key_from_a_command_and_counts_where_it_is_told_to(settings, tmp_path):
    script = tmp_path / "kms.py"
    script.write_text("print('hush-key-' * 5)")
    more = {
        "ASSAY_MASTER_KEY_COMMAND": f"{sys.executable} {script}",
        "ASSAY_BILLING": "budget",
        "ASSAY_BILLING_USD": "12.5",
    }
    with running(settings, tmp_path, **more) as (process, base, log):
        with httpx.Client(base_url=f"{base}/api/v1", headers=HEADERS, timeout=30) as client:
            kept = client.put("/secrets/KEY", json={"value": "hush-value"})
            assert kept.status_code == 200, kept.text
            assert client.post("/secrets/rotate").json()["records"] == 1
            shown = client.get("/billing").json()
        assert (shown["mode"], shown["usd"]["left"]) == ("budget", 12.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert "hush" not in log.read_text()


def test_it_does_not_start_where_the_command_gives_no_key_and_says_why(settings, tmp_path):
    script = tmp_path / "kms.py"
    script.write_text("import sys; print('hush'); sys.exit('hush: no such key')")
    done = subprocess.run(
        [sys.executable, "-m", "gateway"],
        env={
            **os.environ,
            "ASSAY_NATS_URL": settings.nats_url.get_secret_value(),
            "ASSAY_DATABASE_URL": settings.database_url.get_secret_value(),
            "ASSAY_BLOB_URL": settings.blob_url,
            "ASSAY_MASTER_KEY_COMMAND": f"{sys.executable} {script}",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "ASSAY_MASTER_KEY_COMMAND failed" in done.stderr
    assert "hush" not in done.stderr + done.stdout
