"""The cache against a slow and simple one, over many random uses.

cache.py runs in a process of its own that knows the questions alone, and cannot end the checks.
"""
import json, random, subprocess, sys

CHILD = """
import json, os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what the code prints is no answer
sys.path.insert(0, "/app")
from cache import Cache
found = []
for size, uses in json.load(sys.stdin):
    cache = Cache(size)
    found.append([cache.get(use[0]) if len(use) == 1 else cache.put(*use) for use in uses])
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


histories, wanted = [], []
for seed in range(300):
    rng = random.Random(seed)
    size = rng.randint(0, 4)
    order, uses, answers = [], [], []
    for step in range(60):
        key = rng.choice("abcdef")
        others = [pair for pair in order if pair[0] != key]
        if rng.random() < 0.5:
            value = dict(order).get(key)
            order = order if value is None else [*others, (key, value)]
            uses.append([key])
            answers.append(value)
        else:
            value = rng.randint(0, 3)
            order = [*others, (key, value)][-size:] if size else []
            uses.append([key, value])
            answers.append(None)
    histories.append([size, uses])
    wanted.append(answers)
found = ask(histories)
if not isinstance(found, list) or len(found) != len(histories):
    sys.exit(f"FAILED: {found}")
for (size, uses), answers, given in zip(histories, wanted, found):
    for step, (use, right, answer) in enumerate(zip(uses, answers, given)):
        if len(use) == 1 and answer != right:
            sys.exit(f"FAILED: size {size}, after {uses[:step]}: get({use[0]!r}) gave {answer!r}, "
                     f"wanted {right!r}")
print("300 random histories agree")
