"""A submission as far as it can be read. Pure.

A mistake in one section must not hide those in the others, so each section is read by itself, and
what could not be read is None.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from assay_contracts.http import SubmitRun
from assay_contracts.run_config import (
    Agent,
    ConfigIssue,
    EndpointModel,
    Execution,
    Experiment,
    InvalidRunConfigError,
    RunConfig,
    SecretNames,
    Tasks,
    parse_run_config,
)
from gateway.domain import NO_CREDENTIALS, carries_credentials

_ENVIRONMENT = re.compile(r"[a-z][a-z0-9-]*")
_LONGEST_SECRET = 65536


@dataclass(frozen=True)
class Draft:
    """What was submitted; `config` is there only where it has no mistake of its own."""

    config: RunConfig | None
    benchmark: str | None
    tasks: Tasks | None
    agents: Mapping[int, Agent]
    execution: Execution | None
    verifier: SecretNames | None
    secrets: SecretNames | None
    issues: Sequence[ConfigIssue]

    @property
    def required_secrets(self) -> tuple[str, ...]:
        """Every secret name that the readable part refers to."""
        readable = RunConfig.model_construct(
            experiment=Experiment(benchmark=self.benchmark or "unreadable"),
            agents=list(self.agents.values()),
            execution=self.execution or Execution(),
            verifier=self.verifier or SecretNames(),
            secrets=self.secrets or SecretNames(),
        )
        return readable.required_secrets()


def read_draft(body: SubmitRun) -> Draft:
    """Read a submission, section by section."""
    raw, config = body.config, None
    issues: list[ConfigIssue] = []
    try:
        config = parse_run_config(raw)
    except InvalidRunConfigError as error:
        issues.extend(error.issues)
    experiment = _section(Experiment, raw.get("experiment"))
    secrets = _section(SecretNames, raw.get("secrets", {}))
    listed = raw.get("agents")
    agents: dict[int, Agent] = {}
    for index, one in enumerate(listed if isinstance(listed, list) else []):
        agent = _section(Agent, one)
        if agent is not None:
            agents[index] = agent
    issues.extend(_address_issues(agents))
    issues.extend(_request_issues(body, secrets))
    return Draft(
        config=config,
        benchmark=None if experiment is None else experiment.benchmark,
        tasks=_section(Tasks, raw.get("tasks", {})),
        agents=agents,
        execution=_section(Execution, raw.get("execution", {})),
        verifier=_section(SecretNames, raw.get("verifier", {})),
        secrets=secrets,
        issues=issues,
    )


def _section[Section: BaseModel](kind: type[Section], raw: Any) -> Section | None:
    try:
        return kind.model_validate(raw)
    except ValidationError:
        return None


def _address_issues(agents: Mapping[int, Agent]) -> list[ConfigIssue]:
    return [
        ConfigIssue(key=f"agents[{index}].model.base_url", message=NO_CREDENTIALS)
        for index, agent in agents.items()
        if isinstance(agent.model, EndpointModel) and carries_credentials(agent.model.base_url)
    ]


def _request_issues(body: SubmitRun, secrets: SecretNames | None) -> list[ConfigIssue]:
    """What is wrong with the request around the configuration."""
    issues: list[ConfigIssue] = []
    if body.environment is not None and not _ENVIRONMENT.fullmatch(body.environment):
        message = "must be small letters, digits and dashes, starting with a letter"
        issues.append(ConfigIssue(key="environment", message=message))
    for name, value in body.secrets.items():
        key = f"secrets.{name}"
        if secrets is not None and name not in secrets.required:
            issues.append(ConfigIssue(key=key, message="is not in [secrets].required"))
        if not value:
            issues.append(ConfigIssue(key=key, message="must not be empty"))
        elif len(value) > _LONGEST_SECRET:
            issues.append(ConfigIssue(key=key, message=f"at most {_LONGEST_SECRET} characters"))
    return issues
