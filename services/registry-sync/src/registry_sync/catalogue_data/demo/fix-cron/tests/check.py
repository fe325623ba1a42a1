"""Firing times of known lines."""
import signal
import sys
from datetime import datetime
sys.path.insert(0, "/app")
from cron import next_fire
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
def give_up(*_):
    raise TimeoutError("no answer within 3 s")
signal.signal(signal.SIGALRM, give_up)
wrong = 0
for line, after, wanted in CASES:
    signal.alarm(3)  # a line that is not understood may be looked for for ever
    try:
        found = next_fire(line, datetime.fromisoformat(after)).isoformat()
    except Exception as error:
        found = repr(error)
    if found != wanted:
        wrong += 1
        print(f"{line!r} after {after}: wanted {wanted}, found {found}")
        break
sys.exit(bool(wrong))
