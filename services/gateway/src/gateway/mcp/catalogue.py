"""Which routes are tools, under which name, and what an agent is told about each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class Effect(Enum):
    """What calling a tool does to the world."""

    READS = "reads"
    ADDS = "adds"
    CHANGES = "changes"
    """Sets something to a state; the same again changes nothing."""
    ENDS = "ends"
    """Cannot be taken back."""


@dataclass(frozen=True)
class CuratedTool:
    """A tool by its route. `about` is the description; parameters are told from the route."""

    name: str
    title: str
    method: str
    path: str
    effect: Effect
    about: str


PARAMETERS: Mapping[str, str] = {
    "ref": "Name, key or id of the run or benchmark that is meant.",
    "limit": "How many at most.",
    "offset": "How many to leave out before; the answer's next_offset.",
    "after": "Go on after here; the answer's next_after.",
    "agent": "An agent of the run: its number from 0; where a text fits, its harness or model.",
    "task": "Full name of a task, such as org/fix-git.",
    "metric": "pass@1 (the default), pass@k, pass^k, cost, time or tokens.",
    "as_of": "The standings as they were at this moment (ISO 8601 with a time zone).",
    "first": "An entrant: harness, model or both, as the leaderboard shows it.",
    "second": "The entrant to hold it against.",
    "margin": "How much worse the first may be and still count as no worse, such as 0.02.",
    "reason": "Why, for those who look at it later.",
    "environment": "Sandbox to run in: docker or local; left out, the runner chooses.",
    "config": (
        "The run's configuration, such as {'experiment': {'benchmark': 'NAME'}, 'execution': "
        "{'attempts_per_task': 3}, 'agents': [{'harness': 'codex', 'model': {'type': 'provider', "
        "'model': 'openai/gpt-5.2', 'api_key_secret': 'OPENAI_API_KEY'}}]}. Optional: "
        "'tasks': {'task_names': [...]}, execution.max_concurrent_attempts, max_retries, "
        "deadline ('6h'), budget_usd."
    ),
}
"""What parameters mean that the routes leave to their names."""

_API = "/api/v1"
_BENCHMARK, _RUN = f"{_API}/benchmarks/{{ref}}", f"{_API}/runs/{{ref}}"

TOOLS: Sequence[CuratedTool] = (
    CuratedTool(
        "list_benchmarks",
        "List benchmarks",
        "get",
        f"{_API}/benchmarks",
        Effect.READS,
        "Benchmarks that the workspace can run, with their task counts and whether they are ready.",
    ),
    CuratedTool(
        "show_benchmark",
        "Show a benchmark",
        "get",
        _BENCHMARK,
        Effect.READS,
        "One benchmark: pinned version, rules, task sets and every task. Long for large ones.",
    ),
    CuratedTool(
        "add_benchmark",
        "Add a benchmark",
        "post",
        f"{_API}/benchmarks",
        Effect.ADDS,
        "Add a dataset of the Harbor registry, a git repository or a folder. Its task list is read "
        "in the background: ask show_benchmark until sync_status is ready or failed.",
    ),
    CuratedTool(
        "show_leaderboard",
        "Show a leaderboard",
        "get",
        f"{_BENCHMARK}/leaderboard",
        Effect.READS,
        "A benchmark's standings with 95% intervals; entrants that cannot be told apart share a "
        "rank. Also what does not rank, and why.",
    ),
    CuratedTool(
        "compare_entrants",
        "Compare two entrants",
        "get",
        f"{_BENCHMARK}/compare",
        Effect.READS,
        "Two entrants of a leaderboard, paired by task: the difference with its interval, tasks "
        "won and lost, and how much more would tell them apart.",
    ),
    CuratedTool(
        "submit_run",
        "Submit a run",
        "post",
        f"{_API}/runs",
        Effect.ADDS,
        "Run one or more agents on a benchmark. Spends real time, and money where agents call paid "
        "models: set execution.budget_usd and a deadline. Every mistake of the configuration is "
        "listed in the error. Follow it with show_run.",
    ),
    CuratedTool(
        "validate_run",
        "Check a run before submitting it",
        "post",
        f"{_API}/runs/validate",
        Effect.READS,
        "Everything that submit_run would check, with nothing done: every mistake, or how many "
        "results the run has and, where past runs allow, what it will cost and how long it takes.",
    ),
    CuratedTool(
        "list_runs",
        "List runs",
        "get",
        f"{_API}/runs",
        Effect.READS,
        "Runs of the workspace, the newest first, with status and progress.",
    ),
    CuratedTool(
        "show_run",
        "Show a run",
        "get",
        _RUN,
        Effect.READS,
        "One run: status, progress, each agent's metrics with intervals, and the results without "
        "a pass with their causes.",
    ),
    CuratedTool(
        "list_results",
        "List a run's results",
        "get",
        f"{_RUN}/results",
        Effect.READS,
        "The counted result of each agent, task and attempt; filter by agent number, outcome or "
        "cause.",
    ),
    CuratedTool(
        "show_result",
        "Show a result",
        "get",
        f"{_RUN}/results/{{slot_id}}",
        Effect.READS,
        "One result with all its tries, verdict, durations and usage; slot_id is of list_results.",
    ),
    CuratedTool(
        "list_artifacts",
        "List a result's artifacts",
        "get",
        f"{_RUN}/results/{{slot_id}}/artifacts",
        Effect.READS,
        "Files that the counted try of one result left; slot_id is of list_results.",
    ),
    CuratedTool(
        "explain_result",
        "Explain a result",
        "get",
        f"{_RUN}/explain",
        Effect.READS,
        "Why an agent scored what it did on a task: tries, rewards, verifier output, files.",
    ),
    CuratedTool(
        "read_run_log",
        "Read a run's log",
        "get",
        f"{_RUN}/logs",
        Effect.READS,
        "One readable line for each thing that happened to a run, in order.",
    ),
    CuratedTool(
        "list_run_events",
        "List a run's events",
        "get",
        f"{_RUN}/events",
        Effect.READS,
        "A run's events exactly as they are stored, in order. For people, read_run_log is shorter.",
    ),
    CuratedTool(
        "list_events",
        "List the workspace's events",
        "get",
        f"{_API}/events",
        Effect.READS,
        "What happened to the workspace's runs and benchmarks, by type, run or benchmark if asked. "
        "To see what is new, ask again with the answer's position as `after`.",
    ),
    CuratedTool(
        "stop_run",
        "Stop a run",
        "post",
        f"{_RUN}/stop",
        Effect.ENDS,
        "Stop a run for good; the results that are there stay. To go on later, pause_run.",
    ),
    CuratedTool(
        "pause_run",
        "Pause a run",
        "post",
        f"{_RUN}/pause",
        Effect.CHANGES,
        "Let nothing new of a run, or of one agent of it, start until resume_run.",
    ),
    CuratedTool(
        "resume_run",
        "Resume a run",
        "post",
        f"{_RUN}/resume",
        Effect.CHANGES,
        "Let what was paused go on.",
    ),
    CuratedTool(
        "retry_run",
        "Retry errored results",
        "post",
        f"{_RUN}/retry",
        Effect.ADDS,
        "Run a finished run's errored results again on the same run; what was scored stays.",
    ),
    CuratedTool(
        "list_secrets",
        "List secrets",
        "get",
        f"{_API}/secrets",
        Effect.READS,
        "Names of the secrets that a run can use. Values cannot be read, nor set from here.",
    ),
    CuratedTool(
        "show_status",
        "Show the platform's status",
        "get",
        f"{_API}/system/status",
        Effect.READS,
        "Whether every service is ready, and how many dead letters are open.",
    ),
)
