"""Who may know whom: the lines between the packages, held by reading every import statement."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = ("contracts", "daemon", "eagle3_tui")
MAY_KNOW = {
    "contracts": {"contracts"},
    "daemon": {"contracts", "daemon"},
    "eagle3_tui": {"contracts", "eagle3_tui"},
}
TORCH = re.compile(
    r"daemon/(embedded/(model|sampling|engine|dumping|dump_states)|sglang_plugin/eagle3_sglang/(?!dump_format|layer_ids)\w+)\.py"
)
TEXTUAL = re.compile(r"eagle3_tui/(app|driver|screens/\w+|dialogs/\w+|widgets/\w+)\.py")
MACHINE_PATHS = re.compile(rb"/(?:work|home|root|tmp|Users|mnt)/[A-Za-z0-9_.]+/|/work/\w")
"""Folders of somebody's machine. Such paths in a tracked file work on that machine alone."""


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path, *, at_runtime: bool = False) -> Iterator[str]:
    """Yield the full name of everything that a file imports, in functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[ast.AST] = set()
    if at_runtime:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
                skipped |= set(ast.walk(node)) - {node}
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            yield ".".join(part for part in (base, node.module) if part)


@pytest.mark.parametrize("package", OURS)
def test_packages_know_only_whom_they_may(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules(package)
        for name in imports(path)
        if name.split(".")[0] in OURS and name.split(".")[0] not in MAY_KNOW[package]
    ]
    assert modules(package)
    assert found == []


@pytest.mark.parametrize(("banned", "allowed"), [("torch", TORCH), ("textual", TEXTUAL)])
def test_slow_imports_are_where_they_are_needed(banned: str, allowed: re.Pattern[str]) -> None:
    found = [
        str(path.relative_to(ROOT))
        for package in OURS
        for path in modules(package)
        for name in imports(path, at_runtime=True)
        if name.split(".")[0] == banned
    ]
    assert [path for path in found if not allowed.fullmatch(path)] == []
    assert found  # otherwise this test looks for nothing


@pytest.mark.parametrize(
    "module", ["contracts.monitor", "daemon.session", "daemon.embedded.server", "eagle3_tui.__main__"]
)
def test_neither_the_command_nor_the_daemon_imports_them_at_start(module: str) -> None:
    """Also not through others: torch costs 2 s, textual 0.7 s."""
    code = f"import {module}, sys; print(*[name for name in ('torch', 'textual') if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.strip() == ""


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.decode().split("\0") if name]


def test_no_tracked_file_names_a_path_of_somebodys_machine() -> None:
    found = []
    for path in tracked():
        if not path.is_file() or path == Path(__file__) or "fixtures" in path.parts:
            continue
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
            if MACHINE_PATHS.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line[:120]!r}")
    assert found == []
