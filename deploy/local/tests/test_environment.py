"""What the services get to see of the caller's environment."""

import pytest

from assay_contracts.commands import SERVICES
from assay_kernel.database import SQL_ROLE
from assay_local.environment import Addresses, service_environment
from assay_local.folder import DataFolder
from assay_local.provision import WITH_SCHEMA


@pytest.fixture
def folder(tmp_path) -> DataFolder:
    """A data folder."""
    return DataFolder.prepare(tmp_path / "data")


ADDRESSES = Addresses(
    nats={service: f"nats://{service}:secret@127.0.0.1:4222" for service in SERVICES},
    database={name: f"postgresql://{name}:secret@/assay" for name in (*WITH_SCHEMA, SQL_ROLE)},
    port=8400,
)


def test_every_service_is_told_where_the_servers_are(folder):
    for service in SERVICES:
        assert (
            service_environment(service, folder, ADDRESSES, {}).items()
            >= {
                "ASSAY_NATS_URL": f"nats://{service}:secret@127.0.0.1:4222",
                "ASSAY_BLOB_URL": f"file://{folder.root}/blobs",
                "ASSAY_INSTANCE": f"{service}-1",
                "ASSAY_LOG_FORMAT": "json",
            }.items()
        )


def test_every_service_gets_its_own_password_and_no_other(folder):
    for service in SERVICES:
        told = service_environment(service, folder, ADDRESSES, {})
        database = {f"postgresql://{service}:secret@/assay"} if service in WITH_SCHEMA else set()
        queries = {"postgresql://assay_sql:secret@/assay"} if service == "gateway" else set()
        assert {value for value in told.values() if "secret@" in value} == {
            f"nats://{service}:secret@127.0.0.1:4222",
            *database,
            *queries,
        }


def test_servers_of_the_callers_own_are_used_instead(folder):
    caller = {"ASSAY_NATS_URL": "nats://elsewhere", "ASSAY_DATABASE_URL": "postgresql://there"}
    told = service_environment("grader", folder, Addresses(nats={}, database={}, port=1), caller)
    assert told.items() >= caller.items()


def test_the_runner_is_told_what_to_hide_and_the_installation(folder):
    assert (
        service_environment("sandbox-runner", folder, ADDRESSES, {}).items()
        >= {
            "ASSAY_GATEWAY_URL": "http://127.0.0.1:8400",
            "ASSAY_RUNNER_TOKEN_FILE": f"{folder.root}/runner-token",
            "ASSAY_SCRATCH_DIR": f"{folder.root}/sandboxes",
            "ASSAY_HIDDEN_DIRS": str(folder.root),
            "ASSAY_INSTALLATION": folder.installation,
        }.items()
    )


def test_the_grader_is_told_where_its_judge_gets_a_key(folder):
    assert (
        service_environment("grader", folder, ADDRESSES, {}).items()
        >= {
            "ASSAY_GATEWAY_URL": "http://127.0.0.1:8400",
            "ASSAY_RUNNER_TOKEN_FILE": f"{folder.root}/runner-token",
        }.items()
    )


def test_the_master_key_is_for_the_gateway_alone(folder):
    told = [
        service
        for service in SERVICES
        if "ASSAY_MASTER_KEY_FILE" in service_environment(service, folder, ADDRESSES, {})
    ]
    assert told == ["gateway"]


def test_settings_of_the_caller_win_but_not_over_the_port_that_was_asked_for(folder):
    caller = {"ASSAY_LOG_LEVEL": "debug", "ASSAY_HTTP_HOST": "0.0.0.0", "ASSAY_HTTP_PORT": "1"}

    environment = service_environment("gateway", folder, ADDRESSES, caller)

    assert environment["ASSAY_LOG_LEVEL"] == "debug"
    assert environment["ASSAY_HTTP_HOST"] == "0.0.0.0"
    assert environment["ASSAY_HTTP_PORT"] == "8400"


def test_proxies_and_docker_are_passed_and_the_callers_other_secrets_are_not(folder):
    caller = {
        "PATH": "/bin",
        "https_proxy": "http://proxy:1",
        "DOCKER_HOST": "unix:///docker.sock",
        "LC_ALL": "C.UTF-8",
        "OPENAI_API_KEY": "sk-1",
        "AWS_SECRET_ACCESS_KEY": "aws",
        "ASSAY_TOKEN": "mine",
        "PYTHONPATH": "/elsewhere",
    }

    environment = service_environment("grader", folder, ADDRESSES, caller)

    assert environment.keys() & caller.keys() == {"PATH", "https_proxy", "DOCKER_HOST", "LC_ALL"}


def test_addresses_do_not_print_what_may_be_a_password():
    assert "secret" not in repr(ADDRESSES)
