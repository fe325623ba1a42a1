"""Looks every locked dependency up among the published advisories; exits with 1 where one applies.

A machine without a way to the advisories is told so, and nothing is judged: that is no failure of
what is checked.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_LOCK = Path(__file__).parents[1] / "requirements.lock"
_COMMAND = ("-m", "pip_audit", "--disable-pip", "--no-deps", "--format", "json")
_UNREACHABLE = ("ConnectionError", "ConnectTimeout", "ServiceError", "Max retries", "ProxyError")


def main() -> int:
    """Audit; returns the exit code."""
    command = [sys.executable, *_COMMAND, "--progress-spinner", "off", "-r", str(_LOCK)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return _unreadable(done.stderr)
    skipped = [one["name"] for one in found if "skip_reason" in one]
    for one in found:
        for advisory in one.get("vulns", []):
            fixed = ", ".join(advisory["fix_versions"]) or "no version yet"
            _say(f"{one['name']} {one['version']}: {advisory['id']}, mended in {fixed}")
    if any(one.get("vulns") for one in found):
        return 1
    if len(skipped) == len(found):
        _say(f"audit: no advisories were to be had; {len(found)} dependencies were not audited")
    elif skipped:
        _say(f"audit: not among the advisories: {', '.join(skipped)}")
    return 0


def _unreadable(said: str) -> int:
    last = said.strip().splitlines()[-1:] or ["it said nothing"]
    if any(word in said for word in _UNREACHABLE):
        _say(f"audit: the advisories cannot be reached; nothing was audited ({last[0]})")
        return 0
    _say(f"audit: pip-audit failed: {last[0]}")
    return 2


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
