"""What rows are: the first good server decides, the others must agree, and what is stored decides before all."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from contracts.fold.hidden import StoredForm
from contracts.run_config import parse_run_config
from contracts.run_dir import RunDir
from daemon.capture.final_norm import LastRows
from daemon.capture.servers import Probed
from daemon.extract import rows_of_servers
from daemon.extract.rows_of_servers import RowsOfServers
from daemon.sglang_plugin.eagle3_sglang.dump_format import About, DumpFormatError
from daemon.store.norm_file import NORM_FILE, write_norm
from daemon.store.norms import NormWeight
from daemon.store.sample import RowForm
from tests.daemon.capture.dumps import FORM, make_about, make_header

WEIGHT = np.linspace(0.5, 2, FORM.hidden_size, dtype=np.float32)


@dataclasses.dataclass
class Probe:
    rid: str
    url: str = "http://127.0.0.1:30000"
    radix_cache: bool = False
    vocab_size: int | None = 1000
    notes: list[str] = dataclasses.field(default_factory=list)


STORED = StoredForm(FORM.layers, FORM.hidden_size, FORM.dtype, FORM.norm, "safetensors", "models/tiny")


class Servers:
    """Stands for the dump folder: what each probe's server says of itself. Their rows are right, `last` times as large.

    Args:
        monkeypatch: Of the test.
        last: See above.
        norms: Of servers that have another one.
        abouts: By the probe's rid.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        last: float = 1.0,
        norms: dict[str, NormWeight] | None = None,
        **abouts: About | str | Exception,
    ) -> None:
        asked = ""

        async def probe_fault(folder: Path, rid: str, *rest: Any) -> object:
            nonlocal asked
            found, asked = abouts[rid], rid
            if isinstance(found, Exception):
                raise found
            if isinstance(found, str):
                return found
            form = RowForm(found.layers, found.hidden_size, found.dtype, found.norm)
            header = make_header(rid, form, model=found.model, server_layers=found.server_layers)
            rows = LastRows(norm_of_server(folder, found).weight[None] * last, 9.0, found.dtype, found.norm)
            return Probed(found, header, rows)

        def norm_of_server(folder: Path, about: About) -> NormWeight:
            return (norms or {}).get(asked, NormWeight(WEIGHT, about.norm_eps))

        monkeypatch.setattr(rows_of_servers, "probe_fault", probe_fault)
        monkeypatch.setattr(rows_of_servers, "norm_weight", norm_of_server)


def rows(tmp_path: Path, stored: StoredForm | None = None) -> RowsOfServers:
    config = parse_run_config(
        f'[run]\nname = "x"\nstages = ["extract"]\n[extract]\nlayers = {list(FORM.layers)}\n'
        f'dump_dir = "{tmp_path}"\n[[servers]]\nurl = "http://h:1"\n[[datasets]]\nname = "B1"\n'
    )
    return RowsOfServers(RunDir(tmp_path / "run"), config, stored)


async def ask(found: RowsOfServers, rid: str, **over: Any) -> str | None:
    probe: Any = Probe(rid, **over)
    return await found.objection(probe)


async def test_the_first_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Servers(monkeypatch, a=make_about(), b=make_about(hidden_size=16), c=make_about(model="other"))
    found = rows(tmp_path)
    assert found.form is None and found.vocab_size is None
    assert await ask(found, "a") is None
    assert (found.form, found.model, found.vocab_size) == (FORM, "models/tiny", 1000)
    assert found.norm is not None and (found.norm.weight == WEIGHT).all()
    for other in "bc":
        said = await ask(found, other)
        assert said is not None and said.startswith("its hidden states cannot be used: ")
    assert found.form == FORM and (found.norm.weight == WEIGHT).all()


async def test_two_that_differ_and_answer_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both were right as far as anybody knew: still only one of them may be used."""
    Servers(monkeypatch, a=make_about(), b=make_about(hidden_size=16))
    found = rows(tmp_path)
    said = await asyncio.gather(ask(found, "a"), ask(found, "b"))
    assert sorted(each is None for each in said) == [False, True]


async def test_what_is_stored_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Servers(monkeypatch, a=make_about(), b=make_about(dtype="bfloat16"))
    found = rows(tmp_path, msgspec.structs.replace(STORED, dtype="bfloat16"))
    assert found.form is not None and found.form.dtype == "bfloat16"
    assert await ask(found, "a") is not None
    assert await ask(found, "b") is None


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ("no dump of its probe", "no dump of its probe"),
        (make_about(layers=(1, 2, 3)), "layers 1, 2, 3"),
        (make_about(norm="over_weight"), "is 'over_weight'"),
        (DumpFormatError("about.x.json is damaged"), "about.x.json is damaged"),
        (OSError(13, "Permission denied"), "Permission denied"),
    ],
)
async def test_rows_that_cannot_be_used(about: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Servers(monkeypatch, a=about)
    found = rows(tmp_path)
    why = await ask(found, "a")
    assert why is not None and why.startswith("its hidden states cannot be used: ") and said in why
    assert found.form is None and found.norm is None


async def test_a_radix_cache_is_named_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Servers(monkeypatch)
    said = await ask(rows(tmp_path), "a", radix_cache=True)
    assert said is not None and "--disable-radix-cache" in said


async def test_a_last_state_that_is_not_what_it_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Header and self-description are as they should be: only the numbers tell."""
    Servers(monkeypatch, last=7.0, a=make_about())
    found = rows(tmp_path)
    said = await ask(found, "a")
    assert said is not None and "has a mean square of 49 (rows 0 to 0)" in said
    assert found.form is None and found.norm is None


OTHER = np.where(np.arange(FORM.hidden_size) == 2, 3, WEIGHT).astype(np.float32)


@pytest.mark.parametrize(
    ("norm", "words"),
    [
        (NormWeight(OTHER, 1e-5), ("1 of 8 values differ, by up to 2.07", "another checkpoint under the same name")),
        (NormWeight(WEIGHT, 1e-6), ("eps 1e-06; that of http://a:1", "0 of 8 values differ")),
    ],
)
async def test_another_checkpoint_of_the_same_name(
    norm: NormWeight, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Servers(monkeypatch, norms={"b": norm}, a=make_about(), b=make_about(), c=make_about())
    found = rows(tmp_path)
    assert await ask(found, "a", url="http://a:1") is None
    said = await ask(found, "b", url="http://b:1")
    assert said is not None and all(word in said for word in words)
    assert await ask(found, "c", url="http://c:1") is None


async def test_the_checkpoint_of_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that starts again, and servers that came back with other weights meanwhile."""
    store = RunDir(tmp_path / "run").store("B1")
    store.mkdir(parents=True)
    write_norm(store, NormWeight(OTHER, 1e-5))
    Servers(monkeypatch, norms={"b": NormWeight(OTHER, 1e-5)}, a=make_about(), b=make_about())
    found = rows(tmp_path, STORED)
    said = await ask(found, "a")
    assert said is not None and f"that of {store / NORM_FILE}" in said
    assert await ask(found, "b") is None
    assert await ask(rows(tmp_path), "a") is None, "what is left of a store without samples binds nobody"


async def test_a_damaged_norm_of_a_store_is_noted_and_binds_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RunDir(tmp_path / "run").store("B1")
    store.mkdir(parents=True)
    (store / NORM_FILE).write_bytes(b"\x08")
    Servers(monkeypatch, a=make_about())
    probe: Any = Probe("a")
    assert await rows(tmp_path, STORED).objection(probe) is None
    assert "not compared" in probe.notes[0] and NORM_FILE in probe.notes[0]
