"""Asking the gateway for a run's secrets, sealed so that only this process reads them.

The gateway hands them to whoever holds the installation's token for runners, while the run goes on.
The key pair lives in memory alone; values are held for the work at hand and nowhere else.
"""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

import httpx
import orjson
import stamina
from nacl.public import PrivateKey, SealedBox
from pydantic import ValidationError

from assay_contracts.http import ClaimSecrets, SealedSecrets
from assay_contracts.problems import Problem
from assay_kernel import live_secrets

_TIMEOUT_SECONDS = 10.0


class SecretsRefusedError(Exception):
    """The gateway does not hand the secrets out; the message says why."""


class GatewayAwayError(Exception):
    """The gateway does not answer for the moment, or is in trouble itself."""


class SecretClaims:
    """Claims secrets from the gateway."""

    def __init__(self, gateway_url: str, token_file: Path | None, *, attempts: int = 5) -> None:
        """`attempts` is how often a gateway that cannot be reached is asked in all."""
        self._url = f"{gateway_url.rstrip('/')}/api/v1/internal/secrets"
        self._token_file = token_file
        self._attempts = attempts
        self._pair = PrivateKey.generate()

    async def values(self, workspace: str, run: UUID, names: Sequence[str]) -> Mapping[str, str]:
        """The values of the secrets called `names` that the run refers to.

        They are noted with the work under way, which has to be `kept_out_of_logs`.

        Raises:
            SecretsRefusedError: the gateway refuses, or there is no token to ask with.
            GatewayAwayError: it does not answer, or answers that it is in trouble.
        """
        if not names:
            return {}
        if self._token_file is None:
            raise SecretsRefusedError("there is no token to ask with (ASSAY_RUNNER_TOKEN_FILE)")
        request = ClaimSecrets(
            workspace=workspace,
            run=run,
            names=list(names),
            public_key=base64.b64encode(bytes(self._pair.public_key)).decode(),
        )
        response = await self._post(request, self._token_file.read_text().strip())
        if response.is_server_error:
            raise GatewayAwayError(f"the gateway cannot hand secrets out: {_detail(response)}")
        if not response.is_success:
            raise SecretsRefusedError(_detail(response))
        sealed = SealedSecrets.model_validate_json(response.content)
        opened = SealedBox(self._pair).decrypt(base64.b64decode(sealed.sealed))
        values: dict[str, str] = orjson.loads(opened)
        live_secrets.note(values.values())
        return values

    async def _post(self, request: ClaimSecrets, token: str) -> httpx.Response:
        try:
            async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as client:
                async for attempt in stamina.retry_context(
                    on=httpx.TransportError, attempts=self._attempts, timeout=60.0
                ):
                    with attempt:
                        return await client.post(
                            self._url,
                            content=request.model_dump_json(),
                            headers={
                                "Authorization": f"Bearer {token}",
                                "Content-Type": "application/json",
                            },
                        )
        except httpx.TransportError as error:
            raise GatewayAwayError(f"the gateway cannot be reached for secrets: {error}") from error
        raise RuntimeError("unreachable")  # pragma: no cover  the last attempt raises


def _detail(response: httpx.Response) -> str:
    try:
        return Problem.model_validate_json(response.content).detail
    except ValidationError:
        return f"the gateway answered {response.status_code}"
