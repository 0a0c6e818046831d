"""The plugin in the real SGLang: what it dumps are transformers' hidden states, of the right layers and positions."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.sglang.conftest import StartSglang
from tests.sglang.hidden_states import (
    LAYERS,
    Asked,
    about,
    ask_all,
    distances,
    norm_objection,
    norm_weight,
    prompts,
    reference,
    slots,
    start_dumping,
    wait_dump,
)
from tests.sglang.server import SglangServer

COUNT = 60
CLOSE = 5e-4
FAR = 1.0


@dataclass(frozen=True)
class Ran:
    """A server that has answered 60 prompts of ours among others."""

    server: SglangServer
    folder: Path
    asked: list[Asked]
    states: list[Tensor]
    over_weight: bool


def expected(states: Tensor, ran: Ran) -> Tensor:
    """What must lie in the slots."""
    last = states[-1] / norm_weight(ran.folder) if ran.over_weight else states[-1]
    return torch.stack([*(states[layer] for layer in LAYERS), last])


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def ran(
    request: pytest.FixtureRequest, start_sglang_for_module: StartSglang, tmp_path_factory: pytest.TempPathFactory
) -> Ran:
    """Both models, each with another norm of the last slot."""
    kind = request.param
    model = request.getfixturevalue(f"tiny_{kind}")
    folder = tmp_path_factory.mktemp("dumps") / kind
    over_weight = kind == "qwen3"
    layout = "speculators" if over_weight else "safetensors"
    server = start_dumping(start_sglang_for_module, model, folder, layout=layout)
    chance = random.Random(1)
    todo = [(f"e3.r.p{n}.1.{n}", ids, chance.randint(1, 40)) for n, ids in enumerate(prompts(COUNT, seed=3))]
    todo[1:3] = [(todo[1][0], todo[1][1], 40), (todo[2][0], todo[2][1], 1)]
    foreign = [(f"someone.{n}", ids, 8) for n, ids in enumerate(prompts(10, seed=4))]
    mixed = [*todo, *foreign]
    chance.shuffle(mixed)
    asked = [one for one in ask_all(server, mixed) if one.rid.startswith("e3.")]
    made = tmp_path_factory.mktemp("reference")
    return Ran(server, folder, asked, reference(model, [one.fed for one in asked], made), over_weight)


def test_only_requests_of_ours_are_dumped(ran: Ran) -> None:
    dumps = {path.stem for path in ran.folder.glob("*.dump")}
    assert {one.rid for one in ran.asked} <= dumps
    assert all(rid.startswith("e3.") for rid in dumps)
    assert list(ran.folder.glob("*.error")) == []


def test_rows_made_while_generating_are_those_of_transformers(ran: Ran) -> None:
    for one, states in zip(ran.asked, ran.states, strict=True):
        assert_rows(ran, one.rid, one.fed, states)


def test_rows_of_a_pass_over_the_whole_sequence_are_the_same(ran: Ran) -> None:
    again = ask_all(ran.server, [(f"{one.rid}.again", one.fed, 1) for one in ran.asked])
    for one, states in zip(again, ran.states, strict=True):
        assert_rows(ran, one.rid, one.fed, states)


def test_next_best_layer_is_far_off(ran: Ran) -> None:
    for one, states in zip(ran.asked, ran.states, strict=True):
        dump = slots(wait_dump(ran.server, ran.folder, one.rid, len(one.fed)))
        for slot, layer in enumerate([*LAYERS, len(states) - 1]):
            if ran.over_weight and slot == len(LAYERS):
                continue  # in no layer's own form
            found = distances(dump[slot], states)
            assert found[layer] < CLOSE
            assert torch.cat([found[:layer], found[layer + 1 :]]).min() > FAR


def test_self_description(ran: Ran) -> None:
    found = about(ran.folder)
    assert found["refusal"] is None
    assert (found["layers"], found["server_layers"]) == (LAYERS, LAYERS)
    assert (found["hidden_size"], found["dtype"], found["context_length"]) == (64, "float32", 2048)
    assert (found["norm"], found["norm_has_zero"]) == ("over_weight" if ran.over_weight else "post", False)
    assert (found["sglang"], found["port"], found["dp_rank"]) == ("0.5.23", ran.server.port, 0)
    assert found["architecture"] == ("Qwen3ForCausalLM" if ran.over_weight else "LlamaForCausalLM")
    assert found["pid"] in {process.pid for process in ran.server.processes()}


def test_norming_what_was_divided_by_the_weight_gives_the_state_after_the_norm(ran: Ran) -> None:
    if not ran.over_weight:
        pytest.skip("this server dumps the state itself")
    weight, eps = norm_weight(ran.folder), about(ran.folder)["norm_eps"]
    for one, states in zip(ran.asked, ran.states, strict=True):
        divided = slots(wait_dump(ran.server, ran.folder, one.rid, len(one.fed)))[-1]
        normed = divided * torch.rsqrt(divided.square().mean(-1, keepdim=True) + eps) * weight
        assert (normed - states[-1]).abs().max() < CLOSE


def test_the_numbers_of_the_last_slot_say_which_norm_it_is(ran: Ran) -> None:
    own, other = ("over_weight", "post") if ran.over_weight else ("post", "over_weight")
    for one, states in zip(ran.asked, ran.states, strict=True):
        dump = wait_dump(ran.server, ran.folder, one.rid, len(one.fed))
        assert norm_objection(dump, ran.folder) is None
        assert f"({own!r})" in str(norm_objection(dump, ran.folder, norm=other))
        for layer in states[:-1]:
            assert "before the norm" in str(norm_objection(dump, ran.folder, last=layer))


def assert_rows(ran: Ran, rid: str, fed: list[int], states: Tensor) -> None:
    dump = wait_dump(ran.server, ran.folder, rid, len(fed))
    assert len(dump.rows) == len(fed)
    assert dump.ids == fed
    assert all(dump.passes)
    assert (slots(dump) - expected(states, ran)).abs().max() < CLOSE
