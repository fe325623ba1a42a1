"""Pages of every size hold everything once, in order.

pages.py runs in a process of its own that knows the questions alone, and cannot end the checks.
"""
import json, subprocess, sys

CHILD = """
import json, os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what the code prints is no answer
sys.path.insert(0, "/app")
from pages import page, page_count
found = []
for size, per_page in json.load(sys.stdin):
    count = page_count(size, per_page)
    numbers = range(1, min(count, 40) + 1)
    found.append([count, [page(list(range(size)), number, per_page) for number in numbers]])
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


cases = [(size, per_page) for size in range(30) for per_page in range(1, 12)]
found = ask(cases)
if not isinstance(found, list) or len(found) != len(cases):
    sys.exit(f"FAILED: {found}")
for (size, per_page), answer in zip(cases, found):
    cut = [list(range(size))[first : first + per_page] for first in range(0, size, per_page)]
    if answer != [len(cut), cut]:
        sys.exit(f"FAILED: {size} things with {per_page} on a page: [count, pages] is {answer}")
print("all pages are right")
