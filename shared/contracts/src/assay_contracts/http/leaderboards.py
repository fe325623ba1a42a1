"""Standings, what does not rank, and comparisons of two entrants."""

from typing import Literal
from uuid import UUID

from assay_contracts.http.base import Resource
from assay_contracts.http.measures import Amount, Rate, RateAtK


class Comparison(Resource):
    """The paired test against the leader: `difference` is the leader's mean minus this one's.

    On the scale `log` it is the mean difference of logarithms. The interval holds for all
    `n_entrants` of the group at once; it is null for a single task.
    """

    leader_run: UUID
    leader_agent: int
    difference: float
    ci_low: float | None
    ci_high: float | None
    p_value: float
    scale: str
    n_entrants: int
    n_tasks: int
    tasks_won: int
    tasks_lost: int
    tasks_drawn: int


class Standing(Resource):
    """One entrant. `rank` follows the chosen metric; `tied` marks those that share rank 1 because
    they cannot be told apart from the leader."""

    rank: int | None
    tied: bool
    harness: str | None
    model: str
    agent: int
    task_set: str
    benchmark_version: str
    run_id: UUID
    run_name: str
    environment: list[str]
    imported: bool
    pass_threshold: float
    judge_model: str | None
    pass_at_1: Rate
    pass_at_k: list[RateAtK]
    pass_hat_k: list[RateAtK]
    cost_per_task: Amount | None
    seconds_per_task: Amount | None
    tokens_per_task: Amount | None
    comparison: Comparison | None


Metric = Literal["pass@1", "pass@k", "pass^k", "cost", "time", "tokens"]


class Leaderboard(Resource):
    """The standings of a benchmark by one metric, and what does not rank, with the reason.

    `sequence` is the place in the stream that the standings are folded up to; `as_of` repeats it
    where a past moment was asked for.
    """

    benchmark_id: UUID
    benchmark_name: str
    metric: Metric
    sequence: int
    as_of: int | None = None
    standings: list[Standing]
    not_ranked: list["NotRanked"]


class EntrantRef(Resource):
    """An entrant of a comparison, by the run that stands for it."""

    run_id: UUID
    run_name: str
    agent: int
    harness: str | None
    model: str
    imported: bool
    value: float | None


class Needed(Resource):
    """How much more would separate two entrants at 80% power, if the difference is what it seems.

    `tasks` at the present attempts per task; `attempts` per task on the present tasks. Null where
    there is no such number, and then the reason is in words.
    """

    tasks: int | None
    tasks_reason: str | None
    attempts: int | None
    attempts_reason: str | None


class PairComparison(Resource):
    """Two entrants of one leaderboard, paired by task.

    `k` is that of pass@k and pass^k: as many attempts as both have. `difference` is the first's
    mean minus the second's: of rates, or on the scale `log` of logarithms. `margin` is in the unit
    of a rate, or a share of the amount; `verdict` says whether the first is no worse than the
    second by more than that, from the one-sided 95% `bound`. `tasks_won` are those on which the
    first did better.
    """

    benchmark_id: UUID
    metric: Metric
    k: int | None
    sequence: int
    first: EntrantRef
    second: EntrantRef
    n_tasks: int
    scale: str
    difference: float
    ci_low: float | None
    ci_high: float | None
    p_value: float
    margin: float
    verdict: Literal["superior", "non-inferior", "inferior", "inconclusive"]
    bound: float | None
    tasks_won: list[str]
    tasks_lost: list[str]
    tasks_drawn: int
    least_detectable_difference: float | None
    needed: Needed | None


class NotRanked(Resource):
    """An agent of a run that is not on the leaderboard, and why."""

    run_id: UUID
    run_name: str
    agent: int
    harness: str | None
    model: str
    imported: bool
    reason: str
