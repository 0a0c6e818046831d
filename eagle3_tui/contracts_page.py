"""Every declared type as JSON Schema, and all of them as one page of documentation (docs/contracts.md)."""

from __future__ import annotations

import enum
import json
from functools import cache
from typing import Any, Final

import msgspec

from contracts.commands import COMMANDS, Reply
from contracts.daemon_info import DaemonInfo
from contracts.exit_codes import ExitCode
from contracts.records import RECORDS
from contracts.run_config import RunConfig
from contracts.sglang import WIRE_TYPES
from contracts.status import RunStatus
from eagle3_tui.declarations import meanings

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_PARTS: Final[dict[str, tuple[str, dict[str, type[msgspec.Struct]]]]] = {
    "Records": (
        "Lines of the run directory's journals. A key that is not required and absent has its default.",
        RECORDS,
    ),
    "Status": ("What `eagle3 status --json` prints and the control socket answers.", {"status": RunStatus}),
    "Control": (
        "One JSON object a line on the Unix socket, one reply a line; unknown keys are refused.",
        {**COMMANDS, "reply": Reply},
    ),
    "Configuration and state": ("`run.toml` and `daemon.json`.", {"run_config": RunConfig, "daemon_info": DaemonInfo}),
    "SGLang": ("What is read and written of the server's API; its other keys are skipped.", WIRE_TYPES),
}

TYPES: Final[dict[str, type[msgspec.Struct]]] = {
    name: declared for _, types in _PARTS.values() for name, declared in types.items()
}
"""All types by the name that `eagle3 schema` takes."""


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a type, each key with its meaning."""
    found = msgspec.json.schema(TYPES[name])
    found = {"$schema": _DIALECT, "$id": f"eagle3:{name}", **found}
    for title, one in found["$defs"].items():
        for key, meaning in meanings(_declared()[title]).items():
            if key in one.get("properties", {}):
                one["properties"][key]["description"] = meaning
    return found


def page() -> str:
    """Return docs/contracts.md."""
    lines = ["# Contracts", "", "Made by `eagle3 schema --markdown` from `contracts/`; a test compares. JSON Schema of"]
    lines += ["each type: `eagle3 schema NAME`. `null` is unknown, never 0.", ""]
    shown: set[str] = set()
    for heading, (text, types) in _PARTS.items():
        lines += [f"## {heading}", "", text, ""]
        for name in types:
            lines += _section(name, shown)
    lines += ["## Exit codes", "", "| code | name | |", "|---|---|---|"]
    lines += [f"| {int(code)} | {code.name} | {meanings(ExitCode)[code.name]} |" for code in ExitCode]
    return "\n".join(lines) + "\n"


def _section(name: str, shown: set[str]) -> list[str]:
    """Return one type, and the types it is made of unless they were shown before."""
    found = msgspec.json.schema(TYPES[name])
    top = found["$ref"].rpartition("/")[2]
    lines = [f"### {name}", "", *_body(found["$defs"][top], top)]
    shown.add(top)
    for title in sorted(set(found["$defs"]) - shown):
        lines += [f"#### {title}", "", *_body(found["$defs"][title], title)]
        shown.add(title)
    return lines


def _body(definition: dict[str, Any], title: str) -> list[str]:
    meaning = meanings(_declared()[title])
    lines = [" ".join(definition.get("description", "").split()), ""]
    if "enum" in definition:
        members = _declared()[title]
        assert issubclass(members, enum.Enum)
        return lines + [_member(one.value, meaning.get(one.name, "")) for one in members] + [""]
    if not definition.get("properties"):
        return lines
    lines += ["| key | type | default | |", "|---|---|---|---|"]
    required = definition.get("required", [])
    for key, one in definition["properties"].items():
        default = "required" if key in required else _default(one)
        lines.append(f"| `{key}` | {_type(one)} | {default} | {_cell(meaning.get(key, ''))} |")
    return [*lines, ""]


def _member(value: object, meaning: str) -> str:
    return f"- `{value}`: {meaning}" if meaning else f"- `{value}`"


def _default(one: dict[str, Any]) -> str:
    return f"`{json.dumps(one['default'])}`" if "default" in one else ""


def _type(one: dict[str, Any]) -> str:
    """Return a schema in words."""
    if "anyOf" in one:
        return " or ".join(_type(each) for each in one["anyOf"])
    if "$ref" in one:
        return str(one["$ref"].rpartition("/")[2])
    if "enum" in one:
        return " or ".join(f"`{json.dumps(value)}`" for value in one["enum"])
    kind = str(one.get("type", "any JSON"))
    if kind == "array":
        return f"array of {_type(one['items'])}" if "items" in one else "array"
    if kind == "object" and one.get("additionalProperties"):
        return f"object of {_type(one['additionalProperties'])}"
    limits = (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("pattern", "like"))
    words = [f"{sign} {_cell(str(one[limit]))}" for limit, sign in limits if limit in one]
    return " ".join([kind, *words])


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


@cache
def _declared() -> dict[str, type]:
    """Return every type that occurs, by its title in the schemas."""
    _, definitions = msgspec.json.schema_components(TYPES.values())
    known: dict[str, type] = {}
    for declared in TYPES.values():
        _collect(msgspec.inspect.type_info(declared), known)
    missing = set(definitions) - set(known)
    assert not missing, missing
    return known


def _collect(info: msgspec.inspect.Type, known: dict[str, type]) -> None:
    match info:
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            if cls.__name__ not in known:
                known[cls.__name__] = cls
                for field in fields:
                    _collect(field.type, known)
        case msgspec.inspect.EnumType(cls=cls):
            known[cls.__name__] = cls
        case msgspec.inspect.UnionType(types=types):
            for one in types:
                _collect(one, known)
        case msgspec.inspect.ListType(item_type=item):
            _collect(item, known)
        case msgspec.inspect.DictType(value_type=value):
            _collect(value, known)
        case msgspec.inspect.Metadata(type=inner):
            _collect(inner, known)
