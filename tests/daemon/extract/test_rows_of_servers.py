"""What rows are: the first good server decides, the others must agree, and what is stored decides before all."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.fold.hidden import StoredForm
from contracts.run_config import parse_run_config
from daemon.extract import rows_of_servers
from daemon.extract.rows_of_servers import RowsOfServers
from daemon.sglang_plugin.eagle3_sglang.dump_format import About, DumpFormatError
from daemon.store.sample import RowForm
from tests.daemon.capture.dumps import FORM, make_about, make_header


@dataclasses.dataclass
class Probe:
    rid: str
    url: str = "http://127.0.0.1:30000"
    radix_cache: bool = False
    vocab_size: int | None = 1000


class Servers:
    """Stands for the dump folder: what each probe's server says of itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **abouts: About | str | Exception) -> None:
        async def probe_fault(folder: Path, rid: str, *rest: Any) -> object:
            found = abouts[rid]
            if isinstance(found, Exception):
                raise found
            if isinstance(found, str):
                return found
            form = RowForm(found.layers, found.hidden_size, found.dtype, found.norm)
            return found, make_header(rid, form, model=found.model, server_layers=found.server_layers)

        weights = iter(np.arange(1, 9, dtype=np.float32) * number for number in range(1, 9))
        monkeypatch.setattr(rows_of_servers, "probe_fault", probe_fault)
        monkeypatch.setattr(rows_of_servers, "norm_weight", lambda folder, about: (next(weights), about.norm_eps))


def rows(tmp_path: Path, stored: StoredForm | None = None) -> RowsOfServers:
    config = parse_run_config(
        f'[run]\nname = "x"\nstages = ["extract"]\n[extract]\nlayers = {list(FORM.layers)}\n'
        f'dump_dir = "{tmp_path}"\n[[servers]]\nurl = "http://h:1"\n[[datasets]]\nname = "B1"\n'
    )
    return RowsOfServers(config, stored)


async def ask(found: RowsOfServers, rid: str, **over: Any) -> str | None:
    probe: Any = Probe(rid, **over)
    return await found.objection(probe)


async def test_the_first_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Servers(monkeypatch, a=make_about(), b=make_about(hidden_size=16), c=make_about(model="other"))
    found = rows(tmp_path)
    assert found.form is None and found.vocab_size is None
    assert await ask(found, "a") is None
    assert (found.form, found.model, found.vocab_size) == (FORM, "models/tiny", 1000)
    assert found.norm is not None and found.norm.weight[0] == 1
    for other in "bc":
        said = await ask(found, other)
        assert said is not None and said.startswith("its hidden states cannot be used: ")
    assert found.form == FORM and found.norm.weight[0] == 1


async def test_two_that_differ_and_answer_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both were right as far as anybody knew: still only one of them may be used."""
    Servers(monkeypatch, a=make_about(), b=make_about(hidden_size=16))
    found = rows(tmp_path)
    said = await asyncio.gather(ask(found, "a"), ask(found, "b"))
    assert sorted(each is None for each in said) == [False, True]


async def test_what_is_stored_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Servers(monkeypatch, a=make_about(), b=make_about(dtype="bfloat16"))
    stored = StoredForm(FORM.layers, FORM.hidden_size, "bfloat16", FORM.norm, "safetensors", "models/tiny")
    found = rows(tmp_path, stored)
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
