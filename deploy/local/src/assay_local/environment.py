"""What the services get of the environment: their settings, and a sensible part of the caller's."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from assay_kernel.database import SQL_ROLE
from assay_local.folder import DataFolder

_PASSED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("NODE_EXTRA_CA_CERTS", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
        *("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_CONFIG"),
    }
)
_PASSED_PREFIXES = ("LC_", "ASSAY_", "OTEL_")
_FOR_THE_COMMAND = frozenset({"ASSAY_TOKEN", "ASSAY_SERVER", "ASSAY_WORKSPACE", "ASSAY_DATA"})
_NOT_OVERRIDDEN = frozenset({"ASSAY_HTTP_PORT", "ASSAY_GATEWAY_URL"})


@dataclass(frozen=True)
class Addresses:
    """Where the servers are, for each service that uses them; the first two hold passwords.

    A server that the caller's environment names is not among them. Under `SQL_ROLE`, `database` has
    the address under which the gateway runs people's queries.
    """

    nats: Mapping[str, str] = field(repr=False)
    database: Mapping[str, str] = field(repr=False)
    port: int = 0

    @property
    def url(self) -> str:
        """The gateway's address on this machine."""
        return f"http://127.0.0.1:{self.port}"


def passed_environment(caller: Mapping[str, str]) -> dict[str, str]:
    """The part of the caller's environment that the services may see.

    What the `assay` command itself is told, its token above all, is not for them.
    """
    return {
        name: value
        for name, value in caller.items()
        if (name in _PASSED or name.startswith(_PASSED_PREFIXES)) and name not in _FOR_THE_COMMAND
    }


def service_environment(
    service: str, folder: DataFolder, addresses: Addresses, caller: Mapping[str, str]
) -> dict[str, str]:
    """The whole environment of a service. Settings of the caller win over ours."""
    ours = {
        **_given("ASSAY_NATS_URL", addresses.nats.get(service)),
        **_given("ASSAY_DATABASE_URL", addresses.database.get(service)),
        "ASSAY_BLOB_URL": (folder.root / "blobs").as_uri(),
        "ASSAY_INSTANCE": f"{service}-1",
        "ASSAY_LOG_FORMAT": "json",
        "PYTHONUNBUFFERED": "1",
        "OPENBLAS_NUM_THREADS": "1",  # more of them cost a leaderboard twice the processor time
        **_own_settings(service, folder, addresses),
    }
    passed = passed_environment(caller)
    fixed = {name: ours[name] for name in _NOT_OVERRIDDEN if name in ours}
    return {**ours, **passed, **fixed}


def _given(name: str, value: str | None) -> dict[str, str]:
    return {} if value is None else {name: value}


def _own_settings(service: str, folder: DataFolder, addresses: Addresses) -> dict[str, str]:
    root = folder.root
    match service:
        case "gateway":
            return {
                "ASSAY_HTTP_HOST": "127.0.0.1",
                "ASSAY_HTTP_PORT": str(addresses.port),
                "ASSAY_ADMIN_TOKEN_FILE": str(root / "admin-token"),
                "ASSAY_MASTER_KEY_FILE": str(root / "master-key"),
                "ASSAY_RUNNER_TOKEN_FILE": str(root / "runner-token"),
                **_given("ASSAY_SQL_DATABASE_URL", addresses.database.get(SQL_ROLE)),
            }
        case "sandbox-runner":
            return {
                "ASSAY_GATEWAY_URL": addresses.url,
                "ASSAY_RUNNER_TOKEN_FILE": str(root / "runner-token"),
                "ASSAY_SCRATCH_DIR": str(root / "sandboxes"),
                "ASSAY_HIDDEN_DIRS": str(root),
                "ASSAY_INSTALLATION": folder.installation,
            }
        case "grader":
            return {
                "ASSAY_GATEWAY_URL": addresses.url,
                "ASSAY_RUNNER_TOKEN_FILE": str(root / "runner-token"),
            }
        case "registry-sync":
            return {"ASSAY_WORK_DIR": str(root / "registry")}
        case _:
            return {}
