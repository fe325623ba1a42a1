#!/bin/bash
set -euo pipefail
cd /app
python3 - <<'END'
import pathlib
path = pathlib.Path("cron.py")
text = path.read_text()
text = text.replace(
    '    if field == "*":\n        return True\n    return str(value) in field.split(",")\n',
    '    for part in field.split(","):\n'
    '        span, _, step = part.partition("/")\n'
    '        if span == "*":\n            first, last = 0, 59\n'
    '        else:\n            low, _, high = span.partition("-")\n'
    '            first, last = int(low), int(high or low)\n'
    '        if first <= value <= last and (value - first) % int(step or 1) == 0:\n'
    '            return True\n'
    '    return False\n',
)
text = text.replace("moment = after + timedelta(minutes=1)\n",
                    "moment = after.replace(second=0, microsecond=0) + timedelta(minutes=1)\n", 1)
text = text.replace("matches(weekday, moment.weekday())",
                    "any(matches(weekday, day) for day in _days(moment))")
text += (
    "\n\ndef _days(moment: datetime) -> list[int]:\n"
    "    day = moment.isoweekday() % 7\n"
    "    return [0, 7] if day == 0 else [day]\n"
)
path.write_text(text)
END
