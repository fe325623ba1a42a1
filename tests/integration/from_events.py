"""A leaderboard computed from nothing but the printed events of runs.

Written from the published estimators (docs/statistics.md) in the plainest way, with SciPy's own
functions, and with nothing of the product: what it says is held against what the product says.
"""

import math
from collections import defaultdict
from statistics import fmean

import numpy as np
from scipy import stats

SEED, BATCH = 20_210_703, 250
SCORED = {"passed", "failed"}


def leaderboard(runs, metric):
    """The rows of a leaderboard, best first, from a list of runs, each a list of events in order.

    Every run is on one benchmark. Each row has what `assay leaderboard --json` says of an entrant.
    """
    entrants = {}
    for agent in sorted(eligible(runs), key=lambda one: (one["ended"], -one["agent"])):
        entrants[agent["harness"], agent["model"]] = agent
    rows = [scored(one) for one in entrants.values()]
    depth = max((row["attempts"] for row in rows), default=0)
    for row in rows:
        row["value"], row["by_task"] = reading(row, metric, depth)
    lower = metric in {"cost", "time", "tokens"}
    place(rows, lower)
    return sorted(
        rows,
        key=lambda row: (
            row["rank"] or math.inf,
            math.inf if row["value"] is None else row["value"] * (1 if lower else -1),
            row["ended"],
            row["agent"],
        ),
    )


def eligible(runs):
    """Every agent of a finished run on a comparable task set that has a result in each slot; of a
    run that was deleted none."""
    for events in runs:
        told = [one["event"] for one in events]
        data = told[0]["data"]
        if any(event["type"] == "deleted" for event in told):
            continue
        ends = [one for one in events if one["event"]["type"] in {"finished", "stopped", "failed"}]
        if data["selection"]["task_set"] == "custom" or not ends:
            continue
        if ends[-1]["event"]["type"] != "finished":
            continue
        slots = data["selection"]["task_count"] * data["execution"]["attempts_per_task"]
        for index, agent in enumerate(data["agents"]):
            cells = counted(told, index)
            if len(cells) < slots:
                continue
            model = agent.get("model")
            yield {
                "run_name": data["name"],
                "agent": index,
                "harness": agent.get("harness"),
                "model": model["model"] if model else "none",
                "task_set": data["selection"]["task_set"],
                "pass_threshold": data["execution"]["pass_threshold"],
                "group": (
                    data["selection"]["task_set"],
                    data["benchmark"]["digest"],
                    data["execution"]["pass_threshold"],
                    data["execution"]["judge_model"],
                ),
                "ended": ends[-1]["sequence"],
                "cells": cells,
            }


def counted(told, agent):
    """Task and attempt to outcome and result: the first scored verdict, else the latest one.

    What comes after the run has finished, and before it is reopened, does not count.
    """
    results, verdicts, finished = {}, {}, False
    for event in told:
        data = event["data"]
        finished = event["type"] == "finished" or (finished and event["type"] != "reopened")
        if "slot" not in data or data["slot"]["agent"] != agent:
            continue
        one_try = (*data["slot"].values(), data["try_number"], data["delivery"])
        if event["type"] == "result-ingested":
            results.setdefault(one_try, data)
        elif event["type"] == "result-graded":
            cell = (data["slot"]["task"], data["slot"]["attempt"])
            if not finished and verdicts.get(cell, ("",))[0] not in SCORED:
                verdicts[cell] = (data["outcome"], one_try)
    return {
        cell: (outcome, results[one_try])
        for cell, (outcome, one_try) in verdicts.items()
        if outcome != "cancelled"
    }


def scored(agent):
    """The agent with its rates and amounts."""
    tasks = defaultdict(list)
    for (task, _), cell in sorted(agent["cells"].items()):
        tasks[task].append(cell)
    row = {name: agent[name] for name in agent if name != "cells"}
    row["tasks"] = dict(sorted(tasks.items()))
    row["attempts"] = min(len(cells) for cells in tasks.values())
    curve = range(1, row["attempts"] + 1)
    row["pass_at_k"] = [rate(row["tasks"], one_of, k) for k in curve]
    row["pass_hat_k"] = [rate(row["tasks"], all_of, k) for k in curve]
    row["seconds_per_task"] = amount(row["tasks"], seconds, needed=cells_of, weigh=len)
    row["cost_per_task"] = amount(row["tasks"], cost, needed=scored_of)
    row["tokens_per_task"] = amount(row["tasks"], tokens, needed=scored_of)
    return row


def passes(cells):
    return sum(outcome == "passed" for outcome, _ in cells)


def one_of(cells, k):
    """The chance that one of `k` attempts passed."""
    n, c = len(cells), passes(cells)
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def all_of(cells, k):
    """The chance that all of `k` attempts passed."""
    return math.comb(passes(cells), k) / math.comb(len(cells), k)


def rate(tasks, estimate, k):
    """The mean over tasks with Jeffreys' interval at the design-effect sample size."""
    values = [estimate(cells, k) for cells in tasks.values()]
    n, total = len(values), sum(map(len, tasks.values()))
    p = fmean(values)
    variance = np.var(values, ddof=1) / n if n > 1 else 0.0
    if n == 1:
        size = total
    else:
        plain = p in {0, 1} or variance == 0
        size = n if plain else min(max(p * (1 - p) / variance, 1), total)
        size *= (stats.norm.ppf(0.975) / stats.t.ppf(0.975, n - 1)) ** 2
    interval = stats.beta(p * size + 0.5, (1 - p) * size + 0.5).ppf([0.025, 0.975])
    return {
        "k": k,
        "value": p,
        "ci_low": 0.0 if p == 0 else interval[0],
        "ci_high": 1.0 if p == 1 else interval[1],
        "n_tasks": n,
    }


def seconds(result):
    if not result["timed"]:
        return None
    return (moment(result["finished_at"]) - moment(result["started_at"])).item() / 1e6


def moment(written):
    return np.datetime64(written.removesuffix("Z"), "us").astype(np.int64)


def cost(result):
    return result["usage"]["cost_usd"]


def tokens(result):
    usage = result["usage"]
    parts = [usage["input_tokens"], usage["output_tokens"]]
    return usage["total_tokens"] if parts == [None, None] else sum(one or 0 for one in parts)


def cells_of(tasks):
    return [result for cells in tasks.values() for _, result in cells]


def scored_of(tasks):
    return [result for cells in tasks.values() for outcome, result in cells if outcome in SCORED]


def amount(tasks, measured, *, needed, weigh=lambda _: 1):
    """The ratio of sums over tasks with SciPy's BCa interval; None where one is not reported."""
    told = [measured(one) for one in needed(tasks)]
    if not told or None in told:
        return None
    totals = [math.fsum(measured(result) or 0.0 for _, result in cells) for cells in tasks.values()]
    weights = [weigh(cells) for cells in tasks.values()]
    value = math.fsum(totals) / sum(weights)
    found = {"value": value, "ci_low": None, "ci_high": None, "n_tasks": len(tasks)}
    per_task = {total / weight for total, weight in zip(totals, weights, strict=True)}
    if len(tasks) > 1 and len(per_task) == 1:
        found |= {"ci_low": value, "ci_high": value}
    elif len(tasks) > 1:
        both = np.array(sorted(zip(totals, weights, strict=True))).T
        interval = stats.bootstrap(
            tuple(both),
            lambda t, w, axis: t.sum(axis=axis) / w.sum(axis=axis),
            paired=True,
            vectorized=True,
            n_resamples=2000,
            batch=BATCH,
            method="BCa",
            rng=np.random.default_rng(SEED),
        ).confidence_interval
        found |= {"ci_low": interval.low, "ci_high": interval.high}
    return found | {"totals": dict(zip(tasks, totals, strict=True))}


def reading(row, metric, depth):
    """The value by a metric, and the same on each task."""
    if metric.startswith("pass"):
        k, hat = (1 if metric == "pass@1" else depth), "^" in metric
        if row["attempts"] < k:
            return None, {}
        estimate = all_of if hat else one_of
        by_task = {task: estimate(cells, k) for task, cells in row["tasks"].items()}
        return row["pass_hat_k" if hat else "pass_at_k"][k - 1]["value"], by_task
    name = {"cost": "cost_per_task", "time": "seconds_per_task", "tokens": "tokens_per_task"}
    found = row[name[metric]]
    if found is None:
        return None, {}
    share = metric == "time"
    return found["value"], {
        task: total / (len(row["tasks"][task]) if share else 1)
        for task, total in found["totals"].items()
    }


def place(rows, lower):
    """Give each row its rank, whether it is tied, and the comparison with the leader."""
    for row in rows:
        row |= {"rank": None, "tied": False, "comparison": None}
    valued = [row for row in rows if row["value"] is not None]
    if not valued:
        return
    loss = {id(row): row["value"] * (1 if lower else -1) for row in valued}
    leader = min(valued, key=lambda row: (loss[id(row)], row["ended"], row["agent"]))
    group = [row for row in valued if row["group"] == leader["group"]]
    for row in valued:
        row["rank"] = 1 + sum(loss[id(other)] < loss[id(row)] for other in valued)
    for row in group:
        if row is not leader:
            row["comparison"] = compared(leader, row, len(group), lower)
            if row["comparison"]["p_value"] >= 0.05:
                row |= {"rank": 1, "tied": True}
    leader["tied"] = any(row["tied"] for row in valued)


def compared(leader, row, k, lower):
    """The studentized-range test, paired by task."""
    tasks = sorted(leader["by_task"].keys() & row["by_task"].keys())
    ours = np.array([leader["by_task"][task] for task in tasks])
    theirs = np.array([row["by_task"][task] for task in tasks])
    won, lost = int((ours > theirs).sum()), int((ours < theirs).sum())
    if lower:
        won, lost = lost, won
        if min(ours.min(), theirs.min()) > 0:
            ours, theirs = np.log(ours), np.log(theirs)
    d, n = ours - theirs, len(tasks)
    mean, error = d.mean(), d.std(ddof=1) / math.sqrt(n)
    spread = stats.studentized_range(k, n - 1)
    half = spread.ppf(0.95) / math.sqrt(2) * error
    if np.ptp(d) < 1e-12:
        p = 1.0 if abs(mean) < 1e-12 else min(1.0, (k - 1) * 2.0 ** (1 - n))
        half = 0.0
    else:
        p = spread.sf(abs(mean) / error * math.sqrt(2))
    return {
        "leader_agent": leader["agent"],
        "difference": mean,
        "ci_low": mean - half,
        "ci_high": mean + half,
        "p_value": p,
        "n_entrants": k,
        "n_tasks": n,
        "tasks_won": won,
        "tasks_lost": lost,
        "tasks_drawn": n - won - lost,
    }


def differences(shown, computed):
    """Where rows as shown and rows as computed differ, as sentences; within 1e-9 is the same."""
    if len(shown) != len(computed):
        return [f"{len(shown)} rows are shown, {len(computed)} follow from the events"]
    found = []
    names = [name for name in shown[0] if name in computed[0]] if shown else []
    for place, (ours, theirs) in enumerate(zip(shown, computed, strict=True)):
        for name in [*names, "pass_at_1"]:
            expected = theirs["pass_at_k"][0] if name == "pass_at_1" else theirs[name]
            found += _apart(f"row {place}: {name}", ours[name], expected)
    return found


def _apart(where, shown, computed):
    if isinstance(shown, list) and isinstance(computed, list):
        if len(shown) != len(computed):
            return [f"{where}: {len(shown)} values are shown, {len(computed)} computed"]
        pairs = [
            (f"{where}[{n}]", *pair) for n, pair in enumerate(zip(shown, computed, strict=True))
        ]
    elif isinstance(shown, dict) and isinstance(computed, dict):
        pairs = [(f"{where}.{key}", shown[key], computed[key]) for key in shown if key in computed]
        if not pairs:
            return [f"{where}: nothing in common"]
    elif isinstance(shown, float) or isinstance(computed, float):
        same = shown is not None and computed is not None
        same = same and math.isclose(shown, computed, rel_tol=1e-9, abs_tol=1e-9)
        return [] if same else [f"{where}: {shown} is shown, {computed} computed"]
    else:
        return [] if shown == computed else [f"{where}: {shown} is shown, {computed} computed"]
    return [sentence for pair in pairs for sentence in _apart(*pair)]
