"""Asking the gateway for the secrets of a claimed try, sealed so that only this process reads them.

The key pair lives in memory alone. Values are held for the try and nowhere else.
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

_TIMEOUT_SECONDS = 10.0
_HTTP_ERROR = 400


class SecretsRefusedError(Exception):
    """The gateway did not hand the secrets out; the message says why."""


class SecretClaims:
    """Claims secrets from the gateway."""

    def __init__(self, gateway_url: str, token_file: Path | None) -> None:
        self._url = f"{gateway_url.rstrip('/')}/api/v1/internal/secrets"
        self._token_file = token_file
        self._key = PrivateKey.generate()

    async def values(self, workspace: str, run: UUID, names: Sequence[str]) -> Mapping[str, str]:
        """The values of the secrets called `names`.

        Raises:
            SecretsRefusedError: the gateway refuses, or cannot be reached.
        """
        if not names:
            return {}
        if self._token_file is None:
            raise SecretsRefusedError("this runner has no token (ASSAY_RUNNER_TOKEN_FILE)")
        request = ClaimSecrets(
            workspace=workspace,
            run=run,
            names=list(names),
            public_key=base64.b64encode(bytes(self._key.public_key)).decode(),
        )
        response = await self._post(request, self._token_file.read_text().strip())
        if response.status_code >= _HTTP_ERROR:
            raise SecretsRefusedError(_detail(response))
        sealed = SealedSecrets.model_validate_json(response.content)
        opened = SealedBox(self._key).decrypt(base64.b64decode(sealed.sealed))
        values: dict[str, str] = orjson.loads(opened)
        return values

    async def _post(self, request: ClaimSecrets, token: str) -> httpx.Response:
        async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as client:
            try:
                async for attempt in stamina.retry_context(
                    on=httpx.TransportError, attempts=5, timeout=60.0
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
                raise SecretsRefusedError(
                    f"the gateway cannot be reached for secrets: {error}"
                ) from error
        raise RuntimeError("unreachable")  # pragma: no cover  the last attempt raises


def _detail(response: httpx.Response) -> str:
    try:
        return Problem.model_validate_json(response.content).detail
    except ValidationError:
        return f"the gateway answered {response.status_code}"
