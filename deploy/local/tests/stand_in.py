"""A small program in place of a service: the gateway answers `/readyz`, the others wait.

A `stubborn` one does not stop on SIGTERM, a `broken` one ends at once, and a `waiting` gateway says
that the leaderboard is missing.
"""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from typing import ClassVar


class Ready(http.server.BaseHTTPRequestHandler):
    """Answers every question with what is missing."""

    missing: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(503 if self.missing else 200)
        self.end_headers()
        self.wfile.write(json.dumps({"missing": self.missing}).encode())

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def main(service: str, behaviour: str) -> int:
    """Stand in for a service until SIGTERM."""
    sys.stdout.write(f"{service} stands in\n")
    if behaviour == "broken":
        sys.stdout.write("something is wrong with this one\n")
        return 3
    stop = threading.Event()
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN if behaviour == "stubborn" else lambda *_: stop.set()
    )
    subprocess.Popen(["sleep", "600"])  # something that it started and does not end
    if service == "gateway":
        address = (os.environ["ASSAY_HTTP_HOST"], int(os.environ["ASSAY_HTTP_PORT"]))
        Ready.missing = ["leaderboard"] if behaviour == "waiting" else []
        server = http.server.ThreadingHTTPServer(address, Ready)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
