"""The platform as a person runs it: each process has its own passwords, and nothing is refused."""

from pathlib import Path

from assay_contracts.commands import SERVICES
from assay_local.folder import DataFolder
from assay_local.provision import WITH_SCHEMA, role_of

RUN = """
[experiment]
benchmark = "demo"
[tasks]
task_names = ["assay-demo/count-words", "assay-demo/fix-roman"]
[[agents]]
harness = "oracle"
[[agents]]
harness = "nop"
"""


def test_each_process_has_the_passwords_of_its_own_users_alone(platform):
    kept = {path.name: path.read_text() for path in (platform.data / "credentials").iterdir()}
    assert kept.keys() == {
        *(f"nats-{user}" for user in (*SERVICES, "operator")),
        *(f"postgres-{role_of(service)}" for service in WITH_SCHEMA),
        "postgres-assay_sql",
        "postgres-superuser",
    }
    for service in SERVICES:
        process = platform.processes()[service.replace("-", "_")]
        variables = Path(f"/proc/{process}/environ").read_text()
        own = {f"nats-{service}"}
        own |= {f"postgres-{role_of(service)}"} if service in WITH_SCHEMA else set()
        own |= {"postgres-assay_sql"} if service == "gateway" else set()
        assert {name for name, password in kept.items() if password in variables} == own


def test_a_run_and_every_fold_of_it_go_through_without_a_refusal(platform, tmp_path):
    name = platform.submit(tmp_path, RUN)
    platform.run("run", "watch", name)
    for way in ("--verify", "--swap"):
        reports = platform.json("replay", way)
        assert [(one["identical"], one["left_out"]) for one in reports] == [(True, [])] * len(
            reports
        )
    rows = platform.json(
        "sql",
        "SELECT a.harness, a.passed, a.failed, (SELECT count(*) FROM results s"
        " WHERE s.run_id = r.id AND s.agent = a.agent)"
        " FROM runs r JOIN agents a ON a.run_id = r.id WHERE r.name = $1 ORDER BY a.agent",
        "--parameter",
        name,
    )["rows"]
    assert rows == [["oracle", 2, 0, 2], ["nop", 0, 2, 2]]
    logs = {service: DataFolder(platform.data).log(service).read_text() for service in SERVICES}
    assert [service for service, log in logs.items() if "nats-error" in log] == []
    assert [service for service, log in logs.items() if "permission denied" in log] == []
