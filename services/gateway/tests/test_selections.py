"""A submission held against what a benchmark offers: each rule, without any I/O."""

import pytest

from assay_contracts.http import SubmitRun, TaskRow
from assay_contracts.values import BenchmarkRules, SourceType, TaskSet
from gateway.drafts import read_draft
from gateway.selections import Offer, resolve

ORACLE = [{"harness": "oracle"}]
MODEL = {"type": "provider", "model": "a/b", "api_key_secret": "MODEL_KEY"}
TASKS = [
    ("fix-roman", "debugging", None),
    ("fix-greek", "debugging", None),
    ("count-words", "text", None),
    ("train-net", "text", "needs a GPU"),
]


def offer(*, managed=False, sets=(), tasks=TASKS, **rules):
    return Offer(
        tasks=[
            TaskRow(name=name, category=category, difficulty=None, unavailable=why)
            for name, category, why in tasks
        ],
        task_sets=[TaskSet(name=name, tasks=tuple(chosen)) for name, chosen in sets],
        rules=BenchmarkRules(**rules),
        source_type=SourceType.MANAGED if managed else SourceType.REGISTRY,
    )


def resolved(offered, **sections):
    body = {"experiment": {"benchmark": "toy"}, "agents": ORACLE} | sections
    draft = read_draft(SubmitRun(config=body))
    assert list(draft.issues) == []
    return resolve(draft, offered)


def issues(offered, **sections):
    return {one.key: str(one) for one in resolved(offered, **sections).issues}


def test_everything_is_the_full_list_and_counts_what_can_be_run():
    found = resolved(offer())
    assert found.selection.model_dump() == {
        "task_set": "full",
        "positions": None,
        "categories": (),
        "task_count": 3,
    }


def test_a_published_set_keeps_its_name_and_wins_over_the_other_keys():
    offered = offer(sets=[("small", ["count-words", "train-net", "fix-roman"])])
    found = resolved(offered, tasks={"task_set": "small", "task_names": ["no-such-task"]})
    assert (found.selection.task_set, found.selection.positions) == ("small", "0,2")
    assert (found.selection.task_count, found.issues) == (2, ())


@pytest.mark.parametrize("name", ["full", "custom"])
def test_a_published_set_cannot_pass_for_the_full_list_or_a_choice_of_ones_own(name):
    offered = offer(sets=[(name, ["fix-roman"])])
    assert set(issues(offered, tasks={"task_set": name})) == {"tasks.task_set"}


def test_categories_and_names_add_up():
    found = resolved(offer(), tasks={"categories": ["text"], "task_names": ["fix-greek"]})
    assert found.issues == ()
    assert (found.selection.task_set, found.selection.positions) == ("custom", "1-2")
    assert found.selection.categories == ("text",)


def test_every_unknown_or_unavailable_name_is_told_with_the_nearest_ones():
    told = issues(
        offer(),
        tasks={"categories": ["debuging", "txt"], "task_names": ["fix-romn", "train-net"]},
    )
    assert "did you mean debugging?" in told["tasks.categories[0]"]
    assert "did you mean text?" in told["tasks.categories[1]"]
    assert "did you mean fix-roman?" in told["tasks.task_names[0]"]
    assert told["tasks.task_names[1]"].endswith("train-net cannot be run: needs a GPU")


def test_an_unknown_set_is_told_with_those_that_there_are():
    offered = offer(sets=[("parity", ["fix-roman"]), ("small", ["fix-roman"])])
    told = issues(offered, tasks={"task_set": "paritty"})["tasks.task_set"]
    assert "it has parity, small" in told
    assert "did you mean parity?" in told


def test_a_selection_of_nothing_is_refused():
    gone = [("train-net", "text", "needs a GPU")]
    assert "nothing that can be run" in issues(offer(tasks=gone))["tasks"]
    assert "tasks" in issues(offer(tasks=gone), tasks={"categories": ["text"]})


def test_near_names_are_looked_for_only_so_often():
    names = [f"fix-roma{number}" for number in range(50)]
    told = resolved(offer(), tasks={"task_names": names}).issues
    assert len(told) == 50
    assert sum(one.key_correction is not None for one in told) == 20


@pytest.mark.parametrize(
    ("rules", "agent", "harness"),
    [
        ({"default_harness": "terminus-2"}, {"model": MODEL}, "terminus-2"),
        ({"default_harness": "terminus-2"}, {"harness": "codex", "model": MODEL}, "codex"),
        ({"supports_harness": False, "requires_harness": False}, {"model": MODEL}, None),
    ],
)
def test_an_agent_without_harness_gets_the_benchmarks(rules, agent, harness):
    found = resolved(offer(**rules), agents=[agent])
    assert (found.issues, found.agents[0].harness) == ((), harness)


def test_a_harness_is_required_or_refused_as_the_benchmark_says():
    assert "is required" in issues(offer(), agents=[{"model": MODEL}])["agents[0].harness"]
    own_loop = offer(supports_harness=False, requires_harness=False)
    assert "own agent loop" in issues(own_loop)["agents[0].harness"]


JUDGE, KEY = {"judge_model": "a/judge"}, {"judge_api_key_secret": "JUDGE_KEY"}
ASKS = {"requires_judge_model": True, "judge_model_default": "a/default"}


@pytest.mark.parametrize(
    ("rules", "execution", "wrong"),
    [
        ({}, {}, set()),
        ({}, JUDGE | KEY, {"judge_model", "judge_api_key_secret"}),
        (ASKS, KEY, set()),
        (ASKS, JUDGE | KEY, set()),
        (ASKS, JUDGE, {"judge_api_key_secret"}),
        ({"requires_judge_model": True}, KEY, {"judge_model"}),
        ({"requires_judge_api_key": True}, KEY, set()),
        ({"requires_judge_api_key": True}, {}, {"judge_api_key_secret"}),
        ({"requires_judge_api_key": True}, JUDGE | KEY, {"judge_model"}),
    ],
)
def test_a_judge_is_named_and_paid_for_exactly_where_there_is_one(rules, execution, wrong):
    told = issues(offer(**rules), execution=execution)
    assert set(told) == {f"execution.{name}" for name in wrong}


def test_defaults_come_from_the_benchmark():
    rules = {"pass_threshold": 0.7, "reward_key": "accuracy"} | ASKS
    found = resolved(offer(**rules), execution=KEY).execution
    assert (found.pass_threshold, found.reward_key) == (0.7, "accuracy")
    assert found.judge_model == "a/default"
    stricter = resolved(offer(**rules), execution=KEY | {"pass_threshold": 0})
    assert stricter.execution.pass_threshold == 0
    assert resolved(offer(judge_model_default="a/default")).execution.judge_model is None


def test_verifier_secrets_are_for_registry_datasets_alone():
    asked = {"verifier": {"required": ["DATA_KEY"]}}
    assert issues(offer(), **asked) == {}
    assert set(issues(offer(managed=True), **asked)) == {"verifier"}


def test_a_section_that_cannot_be_read_hides_nothing_in_the_others():
    body = {
        "experiment": {"benchmark": "toy"},
        "tasks": {"task_names": ["fix-romn"]},
        "agents": [{"harness": "codx", "model": MODEL}, {"harness": 1}],
        "execution": {"max_retries": "many"},
        "secrets": {"required": ["TOOL_KEY"]},
    }
    draft = read_draft(SubmitRun(config=body, environment="Local\n", secrets={"OTHER": ""}))
    keys = [one.key for one in draft.issues]
    assert keys == [
        "agents[1].harness",
        "execution.max_retries",
        "agents[0].harness",
        "agents[1].model",
        "environment",
        "secrets.OTHER",
        "secrets.OTHER",
    ]
    assert [one.key for one in resolve(draft, offer()).issues] == ["tasks.task_names[0]"]
    assert draft.required_secrets == ("MODEL_KEY", "TOOL_KEY")


def test_an_address_with_a_password_is_refused_since_events_are_for_all_to_read():
    model = {
        "type": "endpoint",
        "base_url": "https://me:hush@example.org/v1",
        "model": "m",
        "api_key_secret": "MODEL_KEY",
    }
    agents = [{"harness": "codex", "model": model}]
    body = {"experiment": {"benchmark": "toy"}, "agents": agents}
    [issue] = read_draft(SubmitRun(config=body)).issues
    assert issue.key == "agents[0].model.base_url"
    assert "hush" not in str(issue)
