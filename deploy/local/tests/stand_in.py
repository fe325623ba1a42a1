"""A small program in place of a service: the gateway answers `/readyz`, the others wait.

A `stubborn` one does not stop on SIGTERM; a `broken` one ends at once.
"""

import http.server
import os
import signal
import subprocess
import sys
import threading


class Ready(http.server.BaseHTTPRequestHandler):
    """Answers every question with: all is ready."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

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
        server = http.server.ThreadingHTTPServer(address, Ready)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
