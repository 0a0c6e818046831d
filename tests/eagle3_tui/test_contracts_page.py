"""Schemas and the page docs/contracts.md, both made from the declarations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.commands import COMMANDS
from contracts.records import RECORDS
from contracts.sglang import WIRE_TYPES
from eagle3_tui.contracts_page import TYPES, page, schema
from eagle3_tui.declarations import meanings
from tests.eagle3_tui.commands.conftest import Result, eagle3  # noqa: F401

PAGE = Path(__file__).parents[2] / "docs" / "contracts.md"


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make docs"


def test_every_declared_type_has_a_schema() -> None:
    assert {*RECORDS, *COMMANDS, *WIRE_TYPES, "status", "reply", "run_config"} <= set(TYPES)


@pytest.mark.parametrize("name", TYPES)
def test_a_schema_names_required_keys_that_it_has(name: str) -> None:
    found = schema(name)
    top = found["$defs"][found["$ref"].rpartition("/")[2]]
    assert set(top.get("required", [])) <= set(top["properties"])
    json.dumps(found)


def test_keys_have_their_meaning() -> None:
    properties = schema("response")["$defs"]["Response"]["properties"]
    assert properties["matched"]["description"].startswith("The stop token")
    assert "description" not in properties["rid"]


def test_meanings_of_a_base_hold_for_what_is_made_from_it() -> None:
    assert meanings(COMMANDS["command.set"])["targets"].startswith("New ``target_tokens``")


def test_the_command_prints_one_all_or_the_page(eagle3: Callable[..., Result]) -> None:  # noqa: F811
    assert eagle3("schema", "response").json == schema("response")
    assert set(eagle3("schema").json) == set(TYPES)
    assert eagle3("schema", "--markdown").out == page()
    assert eagle3("schema", "nonsense").code == 2
