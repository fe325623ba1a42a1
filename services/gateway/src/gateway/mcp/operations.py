"""A route as a tool sees it: one flat set of arguments, and the request that they make."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from gateway.mcp.catalogue import PARAMETERS

_COMPONENTS, _DEFS = "#/components/schemas/", "#/$defs/"

Json = dict[str, Any]


class WrongArgumentsError(ValueError):
    """The arguments make no request; says which are missing or unknown."""


@dataclass(frozen=True)
class Call:
    """A request of the API."""

    method: str
    path: str
    query: Mapping[str, Any]
    body: Json | None


@dataclass(frozen=True)
class Operation:
    """A route of the OpenAPI document, with the JSON Schema of its arguments."""

    method: str
    path: str
    in_path: frozenset[str]
    in_query: frozenset[str]
    in_body: frozenset[str]
    schema: Json

    @classmethod
    def of(cls, document: Json, method: str, path: str) -> "Operation":
        """The operation of a path.

        Raises:
            LookupError: the document has none, or uses a name for two arguments.
        """
        told = document["paths"].get(path, {}).get(method)
        if told is None:
            raise LookupError(f"the API has no {method.upper()} {path}")
        arguments: Json = {}
        required: list[str] = []
        places: dict[str, set[str]] = {"path": set(), "query": set(), "body": set()}
        for place, name, schema, is_required in _arguments(document, told):
            if name in arguments:
                raise LookupError(f"{method.upper()} {path} has two arguments {name}")
            places[place].add(name)
            arguments[name] = _described(name, schema)
            if is_required:
                required.append(name)
        whole = {
            "type": "object",
            "properties": arguments,
            "required": required,
            "additionalProperties": False,
        }
        return cls(
            method=method,
            path=path,
            in_path=frozenset(places["path"]),
            in_query=frozenset(places["query"]),
            in_body=frozenset(places["body"]),
            schema=_self_contained(document, whole),
        )

    def call(self, arguments: Mapping[str, Any]) -> Call:
        """The request that the arguments make.

        Raises:
            WrongArgumentsError: one is missing, unknown, or no part of an address.
        """
        known = self.in_path | self.in_query | self.in_body
        if unknown := sorted(arguments.keys() - known):
            raise WrongArgumentsError(
                f"there is no argument {', '.join(unknown)}; there are {', '.join(sorted(known))}"
            )
        if missing := [name for name in self.schema["required"] if arguments.get(name) is None]:
            raise WrongArgumentsError(f"the argument {', '.join(missing)} is missing")
        path = self.path
        for name in self.in_path:
            path = path.replace(f"{{{name}}}", _segment(name, arguments[name]))
        given = {name: value for name, value in arguments.items() if value is not None}
        body = {name: given[name] for name in self.in_body & given.keys()}
        return Call(
            method=self.method.upper(),
            path=path,
            query={name: given[name] for name in self.in_query & given.keys()},
            body=body if self.in_body else None,
        )


def _arguments(document: Json, told: Json) -> Iterator[tuple[str, str, Json, bool]]:
    """Place, name, schema and whether it is required, of each argument of an operation."""
    for one in told.get("parameters", []):
        if one["in"] in {"path", "query"}:
            described = {"description": one["description"]} if "description" in one else {}
            yield one["in"], one["name"], one["schema"] | described, one.get("required", False)
    content = told.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        body = _body(document, content["application/json"]["schema"])
        for name, schema in body["properties"].items():
            yield "body", name, schema, name in body.get("required", [])


def _body(document: Json, schema: Json) -> Json:
    """The body's own schema; of an optional one, that of the body that may be there."""
    for one in schema.get("anyOf", [schema]):
        if "$ref" in one:
            found: Json = document["components"]["schemas"][one["$ref"].removeprefix(_COMPONENTS)]
            return found
    return schema


def _described(name: str, schema: Json) -> Json:
    shown = {key: value for key, value in schema.items() if key != "title"}
    if name in PARAMETERS:
        shown.setdefault("description", PARAMETERS[name])
    return shown


def _self_contained(document: Json, schema: Json) -> Json:
    """The schema with everything that it refers to."""
    definitions: Json = {}
    left = list(_references(schema))
    while left:
        name = left.pop()
        if name not in definitions:
            definitions[name] = document["components"]["schemas"][name]
            left += _references(definitions[name])
    whole = schema | ({"$defs": definitions} if definitions else {})
    moved: Json = _moved(whole)
    return moved


def _references(schema: Any) -> Iterator[str]:
    match schema:
        case {"$ref": str(target)}:
            yield target.removeprefix(_COMPONENTS)
        case dict():
            for value in schema.values():
                yield from _references(value)
        case list():
            for value in schema:
                yield from _references(value)
        case _:
            return


def _moved(schema: Any) -> Any:
    match schema:
        case {"$ref": str(target), **rest}:
            return {"$ref": target.replace(_COMPONENTS, _DEFS), **rest}
        case dict():
            return {key: _moved(value) for key, value in schema.items() if key != "discriminator"}
        case list():
            return [_moved(value) for value in schema]
        case _:
            return schema


def _segment(name: str, value: Any) -> str:
    """A value as one segment of an address."""
    text = str(value).strip()
    if text in {"", ".", ".."}:
        raise WrongArgumentsError(f"the argument {name} is blank")
    return quote(text, safe="")
