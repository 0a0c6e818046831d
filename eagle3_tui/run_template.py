"""The text of a new run.toml, made from the declaration of run.toml itself: keys, defaults and what they mean.

The values a person must look at are written out; every other key follows as a comment with its default.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from contracts.run_config import RunConfig
from contracts.sglang import SAMPLING_FIELDS
from eagle3_tui.declarations import meanings
from eagle3_tui.text import wrap

_WIDTH: Final = 110
_LEAST_COMMENT: Final = 40
FIRST_SERVER: Final = "http://127.0.0.1:30000"
TOKENIZER_PLACE: Final = "FOLDER-OF-THE-MODELS-TOKENIZER"
"""What is to be replaced."""
_FIRST: Final = ("run", "servers", "datasets", "sampling")


@dataclass(frozen=True)
class NewDataset:
    """A data set of a new run.toml."""

    name: str
    prompts: str | None = None
    """A file to import, as run.toml will name it; None: ``prepared/<name>/prompts.jsonl``."""


def run_toml(
    name: str,
    datasets: Sequence[NewDataset],
    *,
    holds_text: bool = False,
    extract: dict[str, Any] | None = None,
) -> str:
    """Return the text of a run.toml that `contracts.run_config` accepts as it is.

    Args:
        name: Of the run.
        datasets: At least one.
        holds_text: Prompt files hold text: a tokenizer is asked for.
        extract: What ``[extract]`` sets; the run then has both stages. None: answers alone.
    """
    stages = ["generate"] if extract is None else ["generate", "extract"]
    given: dict[str, list[dict[str, Any] | None]] = {
        "run": [{"name": name, "stages": stages}],
        "servers": [{"url": FIRST_SERVER}],
        "datasets": [_given(dataset) for dataset in datasets],
        "sampling": [{"temperature": 0.6, "max_new_tokens": 8192}],
        "generate": [{"concurrency": 256}],
    }
    if extract is not None:
        given["extract"] = [extract]
    if holds_text:
        given["tokenizer"] = [{"path": TOKENIZER_PLACE}]
    blocks = []
    for field in sorted(msgspec.structs.fields(RunConfig), key=_rank):
        table, is_list = _table_of(field)
        if table is None:
            blocks.append(_sampling(given[field.name][0]))
        else:
            blocks += [_block(field.name, table, is_list, values) for values in given.get(field.name, [None])]
    head = "# A run of eagle3. Lines that begin with # show what else there is, and its default."
    return "\n\n".join([head, *blocks]) + "\n"


def _rank(field: msgspec.structs.FieldInfo) -> int:
    """What must be looked at comes first; the rest as declared."""
    return _FIRST.index(field.name) if field.name in _FIRST else len(_FIRST)


def toml_value(value: object) -> str:
    """Return a value as TOML: strings, numbers, booleans and lists of them, written as in JSON (but for DEL)."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _given(dataset: NewDataset) -> dict[str, Any]:
    return {"name": dataset.name} | ({"prompts": dataset.prompts} if dataset.prompts else {})


def _table_of(field: msgspec.structs.FieldInfo) -> tuple[type[msgspec.Struct] | None, bool]:
    """Return the struct of a table, and whether it may stand there several times."""
    kind = msgspec.inspect.type_info(field.type)
    if isinstance(kind, msgspec.inspect.UnionType):
        kind = next(one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType))
    is_list = isinstance(kind, msgspec.inspect.ListType)
    if isinstance(kind, msgspec.inspect.ListType):
        kind = kind.item_type
    return (kind.cls if isinstance(kind, msgspec.inspect.StructType) else None), is_list


def _block(name: str, table: type[msgspec.Struct], is_list: bool, values: dict[str, Any] | None) -> str:
    # A table that must not be there half, or is there only for some, is a comment as a whole.
    is_optional = values is None and any(field.required for field in msgspec.structs.fields(table))
    values = values or {}
    head = f"[[{name}]]" if is_list else f"[{name}]"
    lines = [f"# {head}" if is_optional else head]
    for field in msgspec.structs.fields(table):
        lines += _key(field, values, _plain(meanings(table).get(field.name, "")))
    return "\n".join(lines)


def _key(field: msgspec.structs.FieldInfo, values: dict[str, Any], meaning: str) -> list[str]:
    if field.name in values:
        return _commented(f"{field.name} = {toml_value(values[field.name])}", meaning)
    default = field.default if field.default is not msgspec.NODEFAULT else _made(field.default_factory)
    if default is None or default is msgspec.NODEFAULT:
        state = "(not set)" if default is None else "(needed)"
        return _commented(f"# {field.name} =", f"{state} {meaning}".rstrip())
    return _commented(f"# {field.name} = {toml_value(default)}", meaning)


def _made(factory: Any) -> Any:
    return factory if factory is msgspec.NODEFAULT else factory()


def _commented(text: str, meaning: str) -> list[str]:
    if not meaning:
        return [text]
    indent = " " * max(len(text) + 2, _LEAST_COMMENT)
    lines = wrap(meaning, _WIDTH, first=text.ljust(len(indent)) + "# ", rest="#" + indent[1:] + "# ")
    return [line.rstrip() for line in lines]


def _sampling(values: dict[str, Any] | None) -> str:
    values = values or {}
    others = ", ".join(name for name in SAMPLING_FIELDS if name not in values)
    lines = ["[sampling]".ljust(_LEAST_COMMENT) + "# sent to SGLang as sampling_params"]
    lines += [f"{key} = {toml_value(value)}" for key, value in values.items()]
    return "\n".join(lines + wrap(f"Also: {others}", _WIDTH, first="# ", rest="#   "))


def _plain(text: str) -> str:
    return text.replace("``", "").replace("**", "").replace("None:", "not set:")
