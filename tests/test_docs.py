"""The documentation says what the code does: keys, codes, commands, paths and links are compared with it."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contracts.alerts import current_alerts
from contracts.commands import COMMANDS as CONTROL
from contracts.exit_codes import ExitCode
from contracts.records import GpuReading, HostSample, ServerReading
from contracts.run_config import Alerts, RunConfig, parse_run_config
from contracts.sglang import SAMPLING_FIELDS
from contracts.status import AlertStatus, DaemonStatus, DatasetStatus, RunState, RunStatus, UnreadableLine
from daemon.prompts.shapes import _SHAPES, ID_KEYS
from eagle3_tui.__main__ import build_parser
from eagle3_tui.commands import COMMANDS
from eagle3_tui.commands.check import _sum
from eagle3_tui.keys import APP_KEYS, HISTORY_KEYS, MAIN_KEYS, Key
from eagle3_tui.replay_keys import REPLAY_KEYS
from eagle3_tui.run_template import _made, _table_of, toml_value
from eagle3_tui.screens import attempts, dataset, failures, journal, sample, servers
from eagle3_tui.screens.detail import BACK, MOVING
from eagle3_tui.status_table import summary_line
from tests.benchmarks.__main__ import NAMES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
CASES = (
    1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 17, 18, 19, 20, 21, 23, 24, 26, 27, 28, 30, 31, 32, 33, 34, 35, 37, 40,
    41, 42, 43, 44, 45, 47, 48, 49, 50, 52, 54, 57, 59, 62, 63, 65, 66, 68,
)  # fmt: skip
"""Of ../shared/known-failures.md."""
SOON: set[int] = set()
"""Their tests are being written beside this page; empty when all are there."""


DEMO_LINE = (
    r"\d\d:\d\d:\d\d  \S+  (?:running|finished(?:: target reached(?: \([^)]+\))?)?)  [\d,]+/[\d,]+ done  [\d,]+ tokens"
    r"  (?:-|[\d,.]+) tok/s  ETA (?:-|done|\d+[smhd](?: \d\d[smh])?)  failed [\d,]+  stored [\d,]+/(?:-|[\d,]+)"
)


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(text: str, head: str) -> str:
    begin = text.index(f"\n## {head}\n")
    end = text.find("\n## ", begin + 4)
    return text[begin : None if end < 0 else end]


def rows(text: str) -> dict[str, list[str]]:
    """Rows of the tables in a text, by the first `code` of their first cell."""
    found = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    return {name[1]: cells for cells in found if (name := re.match(r"`([^`]+)`", cells[0]))}


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


TABLES = [field for field in msgspec.structs.fields(RunConfig) if _table_of(field)[0] is not None]


@pytest.mark.parametrize("field", TABLES, ids=lambda field: field.name)
def test_every_key_of_run_toml_stands_there_with_its_default(field: Any) -> None:
    table, is_list = _table_of(field)
    assert table is not None
    documented = rows(section(page("docs/run-toml.md"), f"[[{field.name}]]" if is_list else f"[{field.name}]"))
    expected = {}
    for key in msgspec.structs.fields(table):
        default = key.default if key.default is not msgspec.NODEFAULT else _made(key.default_factory)
        needed = default is msgspec.NODEFAULT
        expected[key.name] = "needed" if needed else "not set" if default is None else f"`{toml_value(default)}`"
    assert {name: cells[1] for name, cells in documented.items()} == expected


def test_every_sampling_field_is_named() -> None:
    assert set(SAMPLING_FIELDS) <= set(re.findall(r"`(\w+)`", section(page("docs/run-toml.md"), "[sampling]")))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_run_toml_shown_is_accepted(path: Path) -> None:
    for block in blocks(path.read_text(encoding="utf-8"), "toml"):
        text = tomllib.loads(block)
        if "run" in text:
            parse_run_config(block)
        else:
            whole = {"run": {"name": "x"}, "servers": [{"url": "http://h:1"}], "datasets": [{"name": "d"}], **text}
            msgspec.convert(whole, RunConfig)


def alert_codes() -> set[str]:
    """The codes that contracts can emit, from its source."""
    package = Path(current_alerts.__code__.co_filename).parent
    found: set[str] = set()
    for file in (*package.glob("*.py"), package.with_name("monitor.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            first: ast.expr | None = None
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.args
                and node.func.id == "make_alert"
            ):
                first = node.args[0]
            elif isinstance(node, ast.keyword) and node.arg == "code":
                first = node.value
            elif isinstance(node, ast.Tuple) and len(node.elts) == 6:
                first = node.elts[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.add(first.value)
    return found


def test_every_alert_and_every_threshold_is_documented() -> None:
    assert len(alert_codes()) > 10
    documented = rows(page("docs/alerts.md"))
    assert set(documented) == alert_codes()
    thresholds = " ".join(cells[2] for cells in documented.values())
    assert [key for key in Alerts.__struct_fields__ if f"`{key}`" not in thresholds] == []


def test_every_key_of_the_status_is_documented() -> None:
    text = page("docs/status.md")
    documented = set(re.findall(r"`(\w+)`", text))
    for kind in (
        RunStatus,
        DaemonStatus,
        DatasetStatus,
        AlertStatus,
        UnreadableLine,
        GpuReading,
        ServerReading,
        HostSample,
    ):
        assert set(kind.__struct_fields__) <= documented, kind.__name__
    assert {str(state) for state in RunState} <= documented
    (example,) = blocks(text, "json")
    status = msgspec.json.decode(example, type=RunStatus, strict=True)
    assert set(msgspec.json.decode(example)) == set(RunStatus.__struct_fields__)
    assert status.state is RunState.RUNNING


KEYS: dict[str, tuple[Key, ...]] = {
    "On every screen": APP_KEYS,
    "Main screen": (*MAIN_KEYS, *HISTORY_KEYS),
    "Every other screen": (BACK, *MOVING),
    "Data set": dataset.KEYS,
    "Failures": failures.KEYS,
    "Attempts": attempts.KEYS,
    "Sample": sample.KEYS,
    "Events and log": journal.KEYS,
    "Servers": servers.KEYS,
    "Replay": REPLAY_KEYS,
}


@pytest.mark.parametrize("head", KEYS)
def test_every_key_of_a_screen_is_documented_as_the_help_has_it(head: str) -> None:
    text = section(page("docs/tui.md"), "Keys")
    part = next(part for part in text.split("\n### ") if part.startswith(f"{head}\n"))
    documented = rows(part)
    common = (
        (BACK, *MOVING) if head in ("Data set", "Failures", "Attempts", "Sample", "Events and log", "Servers") else ()
    )
    expected = {key.shown: key.help for key in KEYS[head] if key not in common}
    assert {name: cells[1] for name, cells in documented.items()} == expected
    assert re.findall(r"### (.*)", text) == list(KEYS)


def test_every_key_that_the_readme_names_does_something() -> None:
    named = rows(section(page("README.md"), "A real run on eight GPUs"))
    known = {key.shown for keys in KEYS.values() for key in keys}
    table = [cells[0] for name, cells in named.items() if name in known]
    assert len(table) > 5
    assert {key for cell in table for key in re.findall(r"`([^`]+)`", cell)} <= known


def test_every_image_is_shown_somewhere() -> None:
    shown = {name for path in PAGES for name in re.findall(r"images/([\w.]+)\)", path.read_text(encoding="utf-8"))}
    assert shown == {path.name for path in (ROOT / "docs" / "images").iterdir()}


def test_every_command_of_the_socket_is_documented() -> None:
    documented = rows(page("docs/protocol.md"))
    assert set(documented) == {name.removeprefix("command.") for name in CONTROL}
    for name, kind in CONTROL.items():
        assert set(re.findall(r"`(\w+)`", documented[name.removeprefix("command.")][1])) == set(kind.__struct_fields__)


def test_every_prompt_shape_and_id_key_is_documented() -> None:
    text = page("docs/prompts.md")
    named = set(re.findall(r"`(\w+)`", section(text, "Shapes that are imported")))
    assert set(_SHAPES) <= named
    assert ", ".join(f"`{key}`" for key in ID_KEYS) in re.sub(r"\s+", " ", section(text, "sample_id"))


def test_exit_codes_are_in_the_readme() -> None:
    codes = [
        line.split("|")[1].strip() for line in section(page("README.md"), "Exit codes").splitlines() if "|" in line
    ]
    assert [str(int(code)) for code in ExitCode] == codes[2:8]


def test_every_command_is_in_the_readme() -> None:
    assert set(re.findall(r"`([\w-]+)`", section(page("README.md"), "Commands"))) >= set(COMMANDS)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_shown_are_commands(path: Path) -> None:
    """What a reader would type is accepted by the parser, and what he would make is a target."""
    text = path.read_text(encoding="utf-8")
    for block in blocks(text, "(?:console|sh)"):
        for line in re.findall(r"(?:^\$ |&& |^)eagle3 ([^\n|&>]*)", block, re.MULTILINE):
            words = shlex.split(line, comments=True)
            if words and words[0] in COMMANDS and words[0] != "embedded":
                build_parser(words[0]).parse_args(words)
    targets = set(re.findall(r"^([a-z-]+):", page("Makefile"), re.MULTILINE))
    for line in re.findall(r"(?:^\$ |^|`)make ([a-z -]+)", text, re.MULTILINE):
        assert set(line.split()) <= targets, line


def shown_output(command: str) -> list[list[str]]:
    """Every shown output of a command in the pages, as lines."""
    found = []
    for path in PAGES:
        for block in blocks(path.read_text(encoding="utf-8"), "console"):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                first, *output = part.splitlines()
                if re.match(command, first) and output:
                    found.append(output)
    return found


def test_shown_outputs_of_check_end_as_check_ends() -> None:
    """With the sum of what was found; or there is one sentence alone, on a run.toml that cannot be used."""
    form = re.escape(_sum([])).replace("0", r"\d+")
    outputs = shown_output(r"eagle3 check ")
    refused = [output for output in outputs if len(output) == 1]
    assert len(outputs) > len(refused)
    for output in outputs:
        assert re.fullmatch(r"eagle3: \S+/run\.toml: .+" if output in refused else form, output[-1]), output[-1]


def test_shown_lines_of_the_demo_have_the_form_of_today() -> None:
    """One form for what is shown and for what the function makes that prints them."""
    status = msgspec.json.decode(blocks(page("docs/status.md"), "json")[0], type=RunStatus)
    status.alerts.clear()
    (output,) = shown_output("make demo HEADLESS=1")
    lines = [line for line in output if re.match(r"\d\d:", line)]
    assert len(lines) > 2
    for line in lines:
        assert re.fullmatch(DEMO_LINE, line), line
    assert re.fullmatch(DEMO_LINE, summary_line(status)), summary_line(status)
    assert any(re.search(r"[\d,]+ tok/s  ETA \d+s", line) for line in lines)


def test_the_benchmarks_shown_exist() -> None:
    assert re.findall(r"make bench ONLY=(\w+)", page("docs/performance.md"))[1:] == list(NAMES)


def slug(head: str) -> str:
    return re.sub(r"[^\w -]", "", head.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if re.match(r"https?:", target):
            continue
        file, _, anchor = target.partition("#")
        there = path.parent / file if file else path
        assert there.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {slug(head) for head in heads}, target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_page_names_this_machine_or_any_other(path: Path) -> None:
    """Addresses are of this machine's own loopback, or plainly made up."""
    text = path.read_text("utf-8")
    assert re.search(r"/work/|/tmp/|/root/|/home/", text) is None
    hosts = {host.partition(":")[0] for host in re.findall(r"https?://([\w.:-]+)", text)}
    assert hosts <= {"127.0.0.1", "localhost", "host", "h", "github.com"}, hosts


def test_the_architecture_names_every_module_and_no_other() -> None:
    text = page("docs/architecture.md")
    for package in ("contracts", "daemon", "eagle3_tui"):
        named = set(re.findall(r"`([\w/]+(?:\.py|/))`", section(text, package)))
        assert [name for name in sorted(named) if not (ROOT / package / name).exists()] == []
        modules = [file.relative_to(ROOT / package) for file in (ROOT / package).rglob("*.py")]
        unnamed = [
            str(module)
            for module in modules
            if not module.name.startswith("__") and str(module) not in named and f"{module.parts[0]}/" not in named
        ]
        assert unnamed == [], package


def names_of_tests(path: Path) -> set[str]:
    """Functions and methods of a test file, as pytest names them; read, not imported."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inner = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}::{one.name}" for one in inner}
    return found


def test_every_known_failure_has_a_rule_and_a_test_that_exists() -> None:
    text = page("docs/reliability.md")
    table = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if re.match(r"\| \d\d \|", line)
    ]
    assert tuple(int(cells[0]) for cells in table) == CASES
    for number, _kind, rule, shown in table:
        assert rule, number
        if int(number) in SOON:
            assert shown == "to come", f"{number} has its test: take it out of SOON"
            continue
        assert re.search(r"`tests/[^`]+::[^`]+`", shown), number
    for name in re.findall(r"`(tests/[^`]+::[^`]+)`", text):
        file, _, test = name.partition("::")
        assert (ROOT / file).is_file(), name
        assert test in names_of_tests(ROOT / file), name
