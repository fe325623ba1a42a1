"""What results are worth: rates, amounts, causes and spending."""

from assay_contracts.http.base import Resource
from assay_contracts.values import CauseClass, Outcome


class Rate(Resource):
    """A rate with its 95% interval over `n_tasks` tasks; `partial` while results are missing."""

    value: float
    ci_low: float
    ci_high: float
    n_tasks: int
    partial: bool = False


class RateAtK(Rate):
    """The rate of solving a task in at least one of `k` attempts."""

    k: int


class Amount(Resource):
    """A mean per task with its 95% interval; the interval is null where it cannot be estimated."""

    value: float
    ci_low: float | None
    ci_high: float | None
    n_tasks: int


class CauseCount(Resource):
    """How many results of one outcome have one cause."""

    outcome: Outcome
    cause: CauseClass
    count: int


class Spend(Resource):
    """What every try took, retries and uncounted ones included; null where nothing is reported.

    `judge_cost_usd` is what the grader's own judge cost; it is in none of the other sums.
    """

    tries: int
    cost_usd: float | None
    input_tokens: int | None
    output_tokens: int | None
    judge_cost_usd: float | None


class Measures(Resource):
    """What results are worth, all or those of one category; times in seconds, money in USD.

    `pass_hat_k` is the rate of solving a task in all of `k` attempts. Amounts have no interval
    until the run has ended. `input_tokens`, `output_tokens` and `cost_usd` are sums over the
    counted results, `spent` over every try. `least_detectable_difference` is the smallest true
    difference in pass@1 that these results would show at 5% with 80% power, against another agent
    whose results vary as much; null where they do not vary.
    """

    n_tasks: int
    passed: int
    failed: int
    errored: int
    cancelled: int
    pass_at_1: Rate | None
    pass_at_k: list[RateAtK]
    pass_hat_k: list[RateAtK]
    cost_per_task: Amount | None
    seconds_per_task: Amount | None
    tokens_per_task: Amount | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    spent: Spend
    causes: list[CauseCount]
    least_detectable_difference: float | None


class CategoryMeasures(Measures):
    """The measures of the tasks of one category; null for tasks without one."""

    category: str | None


class AgentMeasures(Measures):
    """The measures of one agent, over all tasks and by category."""

    categories: list[CategoryMeasures]
