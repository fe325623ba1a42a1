"""Firing times of known lines.

cron.py runs in a process of its own that knows the questions alone, and cannot end the checks.
"""
import json, subprocess, sys

CHILD = """
import json, os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what the code prints is no answer
sys.path.insert(0, "/app")
from datetime import datetime
from cron import next_fire
line, after = json.load(sys.stdin)
found = next_fire(line, datetime.fromisoformat(after)).isoformat()
print(json.dumps(found), file=answers, flush=True)
"""


def ask(questions):
    """The answers, or a text that says why there are none."""
    try:
        run = subprocess.run([sys.executable, "-I", "-c", CHILD], input=json.dumps(questions),
                             capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return "no answer in 20 s"
    try:
        return json.loads(run.stdout)
    except ValueError:
        return f"no answer (exit code {run.returncode}): {run.stderr.strip()[-300:]}"


CASES = [
    ("0 12 *", "2026-05-04T11:59:30", "2026-05-04T12:00:00"),
    ("*/15 * *", "2026-05-04T11:59:59", "2026-05-04T12:00:00"),
    ("*/15 * *", "2026-05-04T12:00:00", "2026-05-04T12:15:00"),
    ("10-20 6 *", "2026-05-04T06:12:00", "2026-05-04T06:13:00"),
    ("10-40/10 6 *", "2026-05-04T06:31:00", "2026-05-04T06:40:00"),
    ("0 0 0", "2026-05-04T00:00:00", "2026-05-10T00:00:00"),
    ("0 0 7", "2026-05-04T00:00:00", "2026-05-10T00:00:00"),
    ("30 9 1-5", "2026-05-08T10:00:00", "2026-05-11T09:30:00"),
    ("5,50-52 23 *", "2026-05-04T23:05:10", "2026-05-04T23:50:00"),
    ("0 */6 *", "2026-12-31T18:00:01", "2027-01-01T00:00:00"),
]
for line, after, wanted in CASES:
    found = ask([line, after])
    if found != wanted:
        sys.exit(f"FAILED: {line!r} after {after}: wanted {wanted}, found {found}")
print(f"all {len(CASES)} lines fire when they should")
