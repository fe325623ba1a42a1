"""The description of the API: what the layers around the routes add, and answers as examples.

The examples are real answers, which tests/contract/make_answer_examples.py keeps in a file
under the names of their schemas; a list is kept under the name of what it lists, in brackets.
"""

import json
from importlib.resources import files
from typing import Any

from fastapi import FastAPI

from assay_contracts.problems import PROBLEM_MEDIA_TYPE

_JSON = "application/json"
_EXAMPLES = files("gateway").joinpath("answer_examples.json")
_FIRST_ERROR = 400


_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Chosen by the client: the same request under the same key is done once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "The ETag of an answer that the client has; 304 says that it still holds.",
    "schema": {"type": "string"},
}
_ETAG = {"description": "Names these very bytes.", "schema": {"type": "string"}}


class GatewayApp(FastAPI):
    """The application, whose OpenAPI document says of errors what they are: problem details."""

    def openapi(self) -> dict[str, Any]:
        """The document, with every error under its own media type."""
        is_new = self.openapi_schema is None
        document = super().openapi()
        if is_new:
            examples = json.loads(_EXAMPLES.read_bytes())
            for path, operations in document["paths"].items():
                for method, operation in operations.items():
                    _as_problems(operation["responses"])
                    _with_examples(operation["responses"], examples)
                    if path.startswith("/api/"):
                        _with_manners(method, operation)
        return document


def _as_problems(answers: dict[str, Any]) -> None:
    for status, answer in answers.items():
        content = answer.get("content", {})
        if int(status) >= _FIRST_ERROR and _JSON in content:
            content[PROBLEM_MEDIA_TYPE] = content.pop(_JSON)


def shape_of(schema: dict[str, Any]) -> str:
    """The name under which an answer of a schema has its example; empty where it has no name."""
    if "items" in schema:
        return f"[{shape_of(schema['items'])}]"
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _with_examples(answers: dict[str, Any], examples: dict[str, Any]) -> None:
    for answer in answers.values():
        content = answer.get("content", {}).get(_JSON, {})
        example = examples.get(shape_of(content.get("schema") or {}))
        if example is not None:
            content["example"] = example


def _with_manners(method: str, operation: dict[str, Any]) -> None:
    """What the layers around the routes add to each of them."""
    match method:
        case "post":
            operation.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
        case "get" if _JSON in operation["responses"]["200"].get("content", {}):
            operation.setdefault("parameters", []).append(_IF_NONE_MATCH)
            operation["responses"]["200"]["headers"] = {"ETag": _ETAG}
            operation["responses"]["304"] = {
                "description": "Nothing changed since the answer with this tag",
                "headers": {"ETag": _ETAG},
            }
        case _:
            pass
