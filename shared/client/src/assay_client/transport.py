"""Sends one request and makes sense of what comes back: an answer, or a typed error.

Where the connection fails, reading is repeated, since it changes nothing, and so is what is sent
with POST, since it carries a key under which the server does it once. Anything else is sent once.
Values named as secret are blotted out of whatever the server says about the request.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import httpx
import httpx_sse
import stamina
from pydantic import BaseModel, TypeAdapter, ValidationError

from assay_client.errors import (
    ApiError,
    NoAnswerError,
    ServerUnreachableError,
    UnexpectedAnswerError,
)
from assay_client.settings import is_loopback
from assay_contracts.identifiers import new_id
from assay_contracts.problems import Problem

API = "/api/v1"
BLOT = "[secret]"

_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 60.0
_CONNECTION_ERRORS = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)
_SHORTEST_SECRET = 4  # a shorter one would blot out half of every message

Value = str | int | Sequence[str] | Sequence[int]
Query = Mapping[str, Value | None]


class Transport:
    """HTTP to one server, in the name of one workspace and one token."""

    def __init__(
        self, server: str, *, token: str | None, workspace: str | None, timeout_seconds: float
    ) -> None:
        self.server = server
        self._timeout_seconds = timeout_seconds
        self._identity = {} if workspace is None else {"X-Assay-Workspace": workspace}
        if token is not None:
            self._identity["Authorization"] = f"Bearer {token}"
        self._http = httpx.Client(
            base_url=server,
            headers={"User-Agent": f"assay-client/{version('assay-client')}"},
            timeout=_timeout(timeout_seconds),
            # A proxy of the environment cannot reach what listens on this machine.
            trust_env=not is_loopback(server),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(
        self, path: str, query: Query | None = None, *, timeout_seconds: float | None = None
    ) -> httpx.Response:
        """Read something of the API; repeated a few times where the connection fails.

        Raises:
            ApiError: the server refused.
            NoAnswerError: no answer came.
        """
        with self._translated():
            response = self._send_with_retries(
                self._http.build_request(
                    "GET",
                    f"{API}/{path}",
                    params=_present(query),
                    headers=self._identity,
                    timeout=_timeout(timeout_seconds or self._timeout_seconds),
                )
            )
        return _checked(response)

    def send(
        self,
        method: str,
        path: str,
        body: BaseModel | None = None,
        *,
        query: Query | None = None,
        timeout_seconds: float | None = None,
        secrets: Sequence[str] = (),
    ) -> httpx.Response:
        """Change something through the API. `secrets` never show in an error.

        A POST is done once, also where it had to be sent again; the rest is sent once.

        Raises:
            ApiError: the server refused.
            NoAnswerError: no answer came; the change may have happened.
        """
        key = {"Idempotency-Key": str(new_id())} if method == "POST" else {}
        request = self._http.build_request(
            method,
            f"{API}/{path}",
            params=_present(query),
            headers=self._identity | key,
            json=None if body is None else body.model_dump(mode="json"),
            timeout=_timeout(timeout_seconds or self._timeout_seconds),
        )
        with self._translated():
            response = self._send_with_retries(request) if key else self._http.send(request)
        return _checked(response, secrets)

    def succeeds(self, path: str) -> bool:
        """Whether a GET outside the API, without a token, is answered with success."""
        with self._translated():
            return self._http.get(path).is_success

    @contextmanager
    def live(
        self, path: str, after: int | str | None, query: Query | None = None
    ) -> Iterator[Iterator[httpx_sse.ServerSentEvent]]:
        """Server-Sent Events from after the event with the id `after`.

        Raises:
            ApiError: the server refused.
            UnexpectedAnswerError: the server answered something other than a stream.
            NoAnswerError: the stream broke, or was silent for a minute.
        """
        headers = dict(self._identity)
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        with (
            self._translated(),
            httpx_sse.connect_sse(
                self._http,
                "GET",
                f"{API}/{path}",
                params=_present(query),
                headers=headers,
                timeout=_timeout(_SILENCE_SECONDS),
            ) as source,
        ):
            if not source.response.is_success:
                source.response.read()
            _checked(source.response)
            try:
                yield source.iter_sse()
            except httpx_sse.SSEError as error:
                raise UnexpectedAnswerError("the server does not stream live events") from error

    @contextmanager
    def download(self, path: str) -> Iterator[Iterator[bytes]]:
        """Something of the API that may be long, in pieces as they come.

        Raises:
            ApiError: the server refused.
            NoAnswerError: the connection broke, or was silent for a minute.
        """
        with (
            self._translated(),
            self._http.stream(
                "GET",
                f"{API}/{path}",
                headers=self._identity,
                timeout=_timeout(_SILENCE_SECONDS),
            ) as response,
        ):
            if not response.is_success:
                response.read()
            _checked(response)
            yield response.iter_bytes()

    @contextmanager
    def fetch(self, url: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """An answer of any address, not read yet; it is not told who asks.

        Raises:
            ApiError: whoever is there refused.
            NoAnswerError: the connection broke, or was silent for a minute.
        """
        with (
            self._translated(),
            self._http.stream(
                "GET", url, headers=dict(headers), timeout=_timeout(_SILENCE_SECONDS)
            ) as response,
        ):
            if not response.is_success:
                response.read()
            yield _checked(response)

    @stamina.retry(
        on=_CONNECTION_ERRORS, attempts=3, wait_initial=0.1, wait_max=1.0, wait_jitter=0.1
    )
    def _send_with_retries(self, request: httpx.Request) -> httpx.Response:
        return self._http.send(request)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ServerUnreachableError(self.server) from error
        except httpx.TimeoutException as error:
            raise NoAnswerError(f"the server at {self.server} did not answer in time") from error
        except httpx.RequestError as error:
            raise NoAnswerError(
                f"the connection to {self.server} broke before the answer was complete"
            ) from error


def parsed[Answer](response: httpx.Response, shape: type[Answer]) -> Answer:
    """The answer as a model of the contracts.

    Raises:
        UnexpectedAnswerError: it has another shape.
    """
    try:
        return TypeAdapter(shape).validate_json(response.content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise UnexpectedAnswerError(
            "the server's answer has a shape that this client does not know",
            f"{place}: {first['msg']}; use a client of the server's version",
        ) from error


def _present(query: Query | None) -> dict[str, Value]:
    return {name: value for name, value in (query or {}).items() if value is not None}


def _timeout(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))


def _checked(response: httpx.Response, secrets: Sequence[str] = ()) -> httpx.Response:
    if response.is_success:
        return response
    hidden = [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]
    try:
        said = _blotted(json.loads(response.content), sorted(hidden, key=len, reverse=True))
    except (ValueError, RecursionError):
        said = None
    refusal = _refusal(response.status_code, said)
    wait = response.headers.get("Retry-After", "")
    refusal.retry_after = int(wait) if wait.isascii() and wait.isdigit() else None
    raise refusal


def _refusal(status: int, said: Any) -> ApiError:
    """The error that was told; what a newer server adds to a problem document is passed over."""
    try:
        return ApiError.of(Problem.model_validate(said))
    except ValidationError:
        pass
    if isinstance(said, dict) and isinstance(said.get("title"), str):
        code = str(said.get("code") or f"HTTP_{status}")
        return ApiError(status, code, said["title"], str(said.get("detail") or ""))
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "an unknown status"
    return ApiError(
        status,
        f"HTTP_{status}",
        f"the server answered {status} ({phrase}) and did not say why",
        "is this the address of an Assay server?",
    )


def _blotted(said: Any, secrets: Sequence[str]) -> Any:
    if isinstance(said, str):
        for secret in secrets:
            said = said.replace(secret, BLOT)
        return said
    if isinstance(said, list):
        return [_blotted(part, secrets) for part in said]
    if isinstance(said, dict):
        return {_blotted(name, secrets): _blotted(part, secrets) for name, part in said.items()}
    return said
