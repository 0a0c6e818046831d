from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from daemon.capture.forms import Asked, form_of
from daemon.capture.servers import Probed, alive, norm_weight, objection, probe_fault, read_abouts
from daemon.sglang_plugin.eagle3_sglang.dump_format import About, DumpFormatError, dump_path, error_path
from daemon.sglang_plugin.eagle3_sglang.instance_files import write_instance
from tests.daemon.capture.dumps import (
    FORM,
    MODEL,
    TAG,
    make_about,
    make_header,
    make_rows,
    write_about,
    write_dump,
)

PROBE = f"e3.{TAG}.probe.5e55.0"
IDS = (1, 2, 3)
OPEN = Asked(FORM.layers, FORM.norm)
"""What run.toml fixes."""


def test_damaged_descriptions_are_skipped_with_a_note(tmp_path: Path) -> None:
    young, old = make_about(instance="8-2-0", started_at=2000.0), make_about(instance="7-1-0", started_at=1000.0)
    write_about(tmp_path, young)
    write_about(tmp_path, old)
    (tmp_path / "about.a.json").write_bytes(old.encode()[:40])
    (tmp_path / "about.b.json").write_bytes(b"")
    (tmp_path / "about.c.json").write_bytes(b'{"format": "eagle3-dump/2"}')
    (tmp_path / "about.d.json").mkdir()
    (tmp_path / "about.e.json").symlink_to(tmp_path / old.file_name)
    (tmp_path / "about.f.json").write_bytes(make_about(pid="7").encode())
    notes: list[str] = []
    assert read_abouts(tmp_path, notes.append) == [old, young]
    assert [Path(note.split(": ")[0]).name for note in notes] == [f"about.{name}.json" for name in "abcdef"]
    assert read_abouts(tmp_path) == [old, young]
    assert read_abouts(tmp_path / "none") == []


def test_a_server_whose_rows_are_those_asked_for() -> None:
    assert objection(make_about(), OPEN, MODEL) is None
    assert objection(make_about(), FORM, None) is None
    assert form_of(make_about()) == FORM


@pytest.mark.parametrize(
    ("changes", "asked", "words"),
    [
        ({"refusal": "pp_size is 2: start with 1"}, OPEN, "the plugin there dumps nothing: pp_size is 2"),
        ({"layers": (2, 3, 4), "server_layers": (3, 4, 5)}, OPEN, "layers 2, 3, 4 (the server was given"),
        ({"layers": (1, 3)}, OPEN, "outputs of layers 1, 3"),
        ({"norm": "over_weight"}, OPEN, "'over_weight', the store takes 'post'"),
        ({"model": "m"}, OPEN, "the model 'm', the run's is 'models/tiny'"),
        ({"hidden_size": 6}, FORM, "expected 32 values a row, got 24: hidden size 6 instead of 8"),
        ({"dtype": "float16"}, FORM, "rows of float16, the store holds float32"),
    ],
)
def test_a_server_whose_rows_are_others(changes: dict[str, object], asked: Asked, words: str) -> None:
    found = objection(make_about(**changes), asked, MODEL)
    assert found is not None
    assert words in found


def test_what_run_toml_does_not_fix_comes_from_the_server() -> None:
    assert objection(make_about(hidden_size=6, dtype="bfloat16"), OPEN, MODEL) is None


def test_a_server_lives_while_it_holds_its_description(tmp_path: Path) -> None:
    about = make_about()
    assert not alive(tmp_path, about)
    held = write_instance(tmp_path, about, None)
    try:
        assert alive(tmp_path, about)
        assert alive(tmp_path, about)
    finally:
        os.close(held)
    assert not alive(tmp_path, about)
    assert read_abouts(tmp_path) == [about]


def test_the_final_norm(tmp_path: Path) -> None:
    about = make_about()
    weight = np.linspace(0.5, 2, FORM.hidden_size, dtype="<f4")
    (tmp_path / about.norm_file_name).write_bytes(weight.tobytes())
    norm = norm_weight(tmp_path, about)
    assert (norm.weight == weight).all()
    assert (str(norm.weight.dtype), norm.eps) == ("float32", 1e-5)


@pytest.mark.parametrize(
    ("content", "changes", "words"),
    [
        (None, {}, "cannot be read: No such file"),
        (bytes(28), {}, "28 bytes; a hidden size of 8 has 32"),
        (bytes(36), {}, "more bytes; a hidden size of 8 has 32"),
        (b"\xff" * 32, {}, "not finite"),
        (bytes(32), {"norm_eps": float("nan")}, "epsilon is nan"),
    ],
)
def test_a_damaged_norm_is_named(tmp_path: Path, content: bytes | None, changes: dict[str, float], words: str) -> None:
    about = make_about(**changes)
    if content is not None:
        (tmp_path / about.norm_file_name).write_bytes(content)
    with pytest.raises(DumpFormatError, match=words):
        norm_weight(tmp_path, about)


async def test_a_probe_whose_dump_is_right(tmp_path: Path) -> None:
    about = make_about()
    write_about(tmp_path, about)
    write_dump(tmp_path, PROBE, list(IDS))
    found = await probe_fault(tmp_path, PROBE, IDS, 0.0)
    assert isinstance(found, Probed)
    assert (found.about, found.header) == (about, make_header(PROBE))
    expected = make_rows(list(IDS))
    assert (found.rows.last == expected[:, -1]).all()
    assert (found.rows.least_square, found.rows.dtype, found.rows.norm) == (4.0, FORM.dtype, FORM.norm)
    assert not dump_path(tmp_path, PROBE).exists()


async def test_a_probe_without_a_dump(tmp_path: Path) -> None:
    found = await probe_fault(tmp_path, PROBE, IDS, 0.0, port=30000)
    assert isinstance(found, str)
    assert f"EAGLE3_DUMP_DIR={tmp_path}?" in found
    assert "eagle3 server-args" in found


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[About], None]]:
    """Start servers, as far as the folder shows it."""
    with ExitStack() as ends:

        def start(about: About) -> None:
            ends.callback(os.close, write_instance(tmp_path, about, None))

        yield start


def _refusing(**changes: object) -> About:
    """What a plugin says that gave up before it knew its model."""
    nothing = {"layers": (), "server_layers": (), "hidden_size": 0, "dtype": "", "model": "", "context_length": 0}
    return make_about(**{**nothing, "instance": "8-2-0", "started_at": 2000.0, **changes})


@pytest.mark.parametrize("port", [30000, None])
async def test_a_probe_of_a_server_that_said_why(
    tmp_path: Path, started: Callable[[About], None], port: int | None
) -> None:
    write_about(tmp_path, _refusing(instance="9-9-0", started_at=9000.0, refusal="an earlier server's"))
    started(make_about())
    started(_refusing(port=port, refusal="the radix cache is on"))
    found = await probe_fault(tmp_path, PROBE, IDS, 0.0, port=30000)
    assert found == "the plugin there dumps nothing: the radix cache is on"


async def test_what_another_server_said_is_no_reason(tmp_path: Path, started: Callable[[About], None]) -> None:
    started(_refusing(port=30001, refusal="the radix cache is on"))
    found = await probe_fault(tmp_path, PROBE, IDS, 0.0, port=30000)
    assert isinstance(found, str)
    assert "radix" not in found


@pytest.mark.parametrize(
    ("ids", "value", "words"),
    [
        ([1, 2, 9], 1.0, "position 2 was computed from token id 9"),
        ([1, 2], 1.0, "2 rows for 3 tokens"),
        ([1, 2, 3], np.nan, "position 2, the last hidden state: not finite"),
    ],
)
async def test_a_probe_with_wrong_rows(tmp_path: Path, ids: list[int], value: float, words: str) -> None:
    write_about(tmp_path, make_about())
    rows = make_rows(ids)
    rows[-1, 3] *= value
    write_dump(tmp_path, PROBE, ids, rows)
    found = await probe_fault(tmp_path, PROBE, IDS, 0.0)
    assert isinstance(found, str)
    assert words in found
    assert not dump_path(tmp_path, PROBE).exists()


async def test_a_probe_of_a_server_without_a_description(tmp_path: Path) -> None:
    write_dump(tmp_path, PROBE, list(IDS))
    found = await probe_fault(tmp_path, PROBE, IDS, 0.0)
    assert isinstance(found, str)
    assert "there is no about.77-1000-0.json" in found


async def test_a_probe_that_the_plugin_could_not_write(tmp_path: Path) -> None:
    error_path(tmp_path, PROBE).write_text("the dump folder: Read-only file system")
    found = await probe_fault(tmp_path, PROBE, IDS, 0.0)
    assert found == (
        "no usable dump of the probe: the server could not write the rows: the dump folder: Read-only file system"
    )
    assert not error_path(tmp_path, PROBE).exists()


async def test_a_dump_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_about(tmp_path, make_about())
    path = write_dump(tmp_path, PROBE, list(IDS))

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted", str(self))

    monkeypatch.setattr(Path, "unlink", refuse)
    found = await probe_fault(tmp_path, PROBE, IDS, 0.0)
    assert found == (
        f"{path}: the dump of the probe cannot be removed: Operation not permitted; server and daemon must run as the "
        f"same user"
    )
