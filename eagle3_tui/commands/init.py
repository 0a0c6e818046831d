"""`eagle3 init`: a run directory to begin with."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from contracts.exit_codes import ExitCode
from contracts.run_config import LAYOUTS, ConfigError, parse_run_config
from contracts.run_dir import RunDir
from eagle3_tui.arguments import describe, natural
from eagle3_tui.failure import CommandFailed, UsageError
from eagle3_tui.run_template import FIRST_SERVER, TOKENIZER_PLACE, NewDataset, run_toml
from eagle3_tui.text import encodable, visible

_HEAD_BYTES: Final = 1 << 16
_EXAMPLE: Final = NewDataset("my_dataset")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `init` takes."""
    parser.add_argument(
        "dir", nargs="?", type=Path, default=Path(), metavar="DIR", help="the new run directory (default: this folder)"
    )
    parser.add_argument("--print", action="store_true", help="print the run.toml instead; makes nothing")
    parser.add_argument(
        "--from",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        dest="files",
        help="prompt files, a data set for each",
    )
    parser.add_argument(
        "--layers",
        nargs="+",
        type=natural,
        default=[],
        metavar="L",
        help="store hidden states too: 0-based output ids of the layers, ascending",
    )
    parser.add_argument("--layout", choices=LAYOUTS, help="of their store, by its trainer (default: safetensors)")
    describe(
        parser,
        "eagle3 init my_run --from prompts/code.jsonl prompts/chat.jsonl --layers 2 30 58 --layout specforge",
        (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE),
        "Write a run.toml, every key with its default and meaning, and the folders of its data sets.\n"
        "Never overwrites one. With --layers the run stores hidden states besides answers.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write, or print, a run.toml."""
    extract = _extract(arguments)
    run = RunDir(arguments.dir)
    datasets = datasets_of(arguments.files, run.path)
    name = _name(run.path.absolute().name, "my_run")
    holds_text = any(map(_holds_text, arguments.files))
    text = run_toml(name, datasets or [_EXAMPLE], holds_text=holds_text, extract=extract)
    _refuse_wrong(text)
    if arguments.print:
        sys.stdout.write(text)
        return ExitCode.OK
    run.path.mkdir(parents=True, exist_ok=True)
    write_new(run.config, text)
    for dataset in datasets or [_EXAMPLE]:
        run.dataset(dataset.name).path.mkdir(parents=True, exist_ok=True)
    shown = visible(run.path)
    print(f"wrote {visible(run.config)}; look through it, then: eagle3 check {shown} && eagle3 start {shown}")
    for line in _to_edit(run, datasets, holds_text):
        print(f"  {line}")
    return ExitCode.OK


def _to_edit(run: RunDir, datasets: list[NewDataset], holds_text: bool) -> list[str]:
    """Say what nobody but the person can know: where a start would go wrong, or elsewhere than is meant."""
    lines = [f"[[servers]] url: where SGLang listens, here {FIRST_SERVER}"]
    if holds_text:
        lines.append(f"[tokenizer] path: the model's local folder instead of {TOKENIZER_PLACE}")
    if not datasets:
        prompts = run.dataset(_EXAMPLE.name).prompts
        lines.append(f"[[datasets]]: your prompt files, or put your prompts into {visible(prompts)}")
    return lines


def write_new(path: Path, text: str) -> None:
    """Write a file that must not be there yet.

    Raises:
        CommandFailed: It is there; it is left as it is.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise CommandFailed(f"{path}: is there already and is left as it is; see a new one with: --print") from None


def datasets_of(files: Sequence[Path], folder: Path) -> list[NewDataset]:
    """Return a data set for each prompt file, named after it.

    Raises:
        CommandFailed: A file is missing, or two have the same name.
    """
    found: dict[str, NewDataset] = {}
    for file in files:
        if not file.is_file():
            raise CommandFailed(f"{file}: no such file")
        named = _as_named_in(folder, file)
        if encodable(named) != named:
            raise CommandFailed(f"{file}: its path is not UTF-8, so run.toml can't name it; rename it")
        name = _name(file.name.split(".")[0], "dataset")
        if name in found:
            raise CommandFailed(f"{file}: there would be two data sets named {name}; rename one of the files")
        found[name] = NewDataset(name, named)
    return list(found.values())


def _extract(arguments: argparse.Namespace) -> dict[str, object] | None:
    """Return what [extract] is to hold; None: hidden states are not wanted.

    Raises:
        UsageError: A layout for no layers.
    """
    if not arguments.layers:
        if arguments.layout is not None:
            raise UsageError("--layout: is for hidden states; name their layers with --layers")
        return None
    return {"layers": arguments.layers} | ({"layout": arguments.layout} if arguments.layout else {})


def _refuse_wrong(text: str) -> None:
    """See that a start would take the file: what was given here may contradict itself (layers, layout).

    Raises:
        UsageError: It would not.
    """
    try:
        parse_run_config(text)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def _as_named_in(folder: Path, file: Path) -> str:
    """Return the file's path relative to the run directory where it is in or beside it: both can be moved together."""
    # Links on the way resolved: `..` of a linked folder is not where it is linked from.
    absolute, root = file.parent.resolve() / file.name, folder.resolve()
    around = root if root.parent == Path("/") else root.parent
    return os.path.relpath(absolute, root) if absolute.is_relative_to(around) else os.fspath(file.absolute())


def _name(text: str, otherwise: str) -> str:
    """Return a text as a name for run.toml: letters, digits, dot, dash and underscore of ASCII."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._-")[:100] or otherwise


def _holds_text(file: Path) -> bool:
    with file.open("rb") as opened:
        return b'"input_ids"' not in opened.read(_HEAD_BYTES)
