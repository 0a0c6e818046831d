"""The transformer: one truth, however it is fed - whole, in chunks, cached, alone or in a batch."""

import pytest
import torch

from daemon.embedded.config import load_config
from daemon.embedded.model import Choice, KVCache, TinyLlama, choose, limit_threads

CONFIG = load_config()
IDS = [5, 300, 17, 999, 42, 42, 700, 3, 256, 81, 12]
EVERY_LAYER = range(CONFIG.num_hidden_layers)
GREEDY = Choice(0.0, 1.0, -1, 0.0, 0.0)


@pytest.fixture(scope="module")
def model() -> TinyLlama:
    limit_threads()
    return TinyLlama(CONFIG, seed=3)


def greedy(model: TinyLlama, cache: KVCache, prompts: list[list[int]], steps: int) -> list[list[int]]:
    """Decode all prompts together, one slot each."""
    outputs = [
        choose(model.prefill(prompt, cache, slot).logits, [GREEDY]) for slot, prompt in enumerate(prompts)
    ]  # fmt: skip
    for _ in range(steps - 1):
        fed = [len(prompt) + len(output) - 1 for prompt, output in zip(prompts, outputs, strict=True)]
        logits = model.decode([output[-1] for output in outputs], fed, cache).logits
        for output, token in zip(outputs, choose(logits, [GREEDY] * len(prompts)), strict=True):
            output.append(token)
    return outputs


def test_weights_depend_on_the_seed_alone(model: TinyLlama) -> None:
    torch.manual_seed(99)
    again, other = TinyLlama(CONFIG, seed=3), TinyLlama(CONFIG, seed=4)
    assert torch.equal(again.lm_head.weight, model.lm_head.weight)
    assert not torch.equal(other.lm_head.weight, model.lm_head.weight)
    assert model.norm.weight.std() > 0.1


def test_cached_decoding_equals_full_recomputation(model: TinyLlama) -> None:
    cache, whole = KVCache(CONFIG, 2), KVCache(CONFIG, 1)
    model.prefill(IDS[:4], cache, 0)
    for position in range(4, len(IDS)):
        step = model.decode([IDS[position]], [position], cache, capture=EVERY_LAYER)
        full = model.prefill(IDS[: position + 1], whole, 0, capture=EVERY_LAYER)
        torch.testing.assert_close(step.logits, full.logits, atol=2e-4, rtol=1e-4)
        torch.testing.assert_close(step.last, full.last[-1:], atol=2e-4, rtol=1e-4)
        for layer in EVERY_LAYER:
            torch.testing.assert_close(step.aux[layer], full.aux[layer][-1:], atol=2e-4, rtol=1e-4)


def test_prefill_in_chunks_equals_prefill_at_once(model: TinyLlama) -> None:
    chunked, whole = KVCache(CONFIG, 2), KVCache(CONFIG, 1)
    full = model.prefill(IDS, whole, 0, capture=[0, 7])
    rows = [model.prefill(IDS[at : at + 4], chunked, 1, start=at, capture=[0, 7]) for at in (0, 4, 8)]
    for layer in (0, 7):
        assert full.aux[layer].shape == (len(IDS), CONFIG.hidden_size)
        torch.testing.assert_close(
            torch.cat([each.aux[layer] for each in rows]), full.aux[layer], atol=2e-4, rtol=1e-4
        )  # fmt: skip
    torch.testing.assert_close(torch.cat([each.last for each in rows]), full.last, atol=2e-4, rtol=1e-4)


def test_a_batch_decodes_what_each_prompt_does_alone(model: TinyLlama) -> None:
    prompts = [IDS, IDS[:3], [7] * 40, [1000, 2, 900, 4], [71]]
    together = greedy(model, KVCache(CONFIG, len(prompts)), prompts, 12)
    alone = [greedy(model, KVCache(CONFIG, 1), [prompt], 12)[0] for prompt in prompts]
    assert together == alone
    assert len({tuple(output) for output in together}) == len(prompts)


def test_the_cache_grows_and_moves_without_changing_what_it_holds(model: TinyLlama) -> None:
    small, large = KVCache(CONFIG, 3, capacity=8), KVCache(CONFIG, 1, capacity=512)
    assert greedy(model, small, [IDS], 30) == greedy(model, large, [IDS], 30)
    assert small.capacity == 64
    model.prefill(IDS, small, 2)
    small.move(2, 0, len(IDS))
    model.prefill(IDS, large, 0)
    moved = model.decode([9], [len(IDS)], small).logits
    torch.testing.assert_close(moved, model.decode([9], [len(IDS)], large).logits, atol=2e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="do not fit a context of 2048"):
        small.reserve(2049)


def test_aux_is_the_sum_that_the_next_layer_reads(model: TinyLlama) -> None:
    """Last hidden states are the final norm of the last layer's output, as in SGLang's aux mode."""
    output = model.prefill(IDS, KVCache(CONFIG, 1), 0, capture=[CONFIG.num_hidden_layers - 1])
    normed, _ = model.norm(output.aux[CONFIG.num_hidden_layers - 1], None)
    torch.testing.assert_close(normed, output.last, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.lm_head(output.last[-1:]), output.logits, atol=1e-5, rtol=1e-5)


def test_what_is_captured_changes_no_bit_of_the_rest(model: TinyLlama) -> None:
    plain, captured = KVCache(CONFIG, 1), KVCache(CONFIG, 1)
    passes = [
        (model.prefill(IDS, plain, 0), model.prefill(IDS, captured, 0, capture=EVERY_LAYER)),
        (model.decode([7], [len(IDS)], plain), model.decode([7], [len(IDS)], captured, capture=EVERY_LAYER)),
    ]
    for without, with_ in passes:
        assert torch.equal(without.logits, with_.logits)
        assert torch.equal(without.last, with_.last)
    assert (passes[0][1].ids.tolist(), passes[0][1].positions.tolist()) == (IDS, list(range(len(IDS))))


@pytest.mark.parametrize(
    ("choice", "allowed"),
    [
        (Choice(0.0, 1.0, -1, 0.0, 0.99), {0}),
        (Choice(1.0, 1.0, 1, 0.0, 0.99), {0}),
        (Choice(1.0, 1.0, 2, 0.0, 0.999), {0, 1}),
        (Choice(1.0, 0.7, -1, 0.0, 0.999), {0, 1}),
        (Choice(1.0, 1.0, -1, 0.5, 0.999), {0}),
        (Choice(1.0, 1.0, -1, 0.0, 0.9999), {0, 1, 2, 3}),
        (Choice(0.0, 1.0, -1, 0.0, 0.5, banned=(0, 1)), {2}),
    ],
)
def test_sampling_keeps_to_its_filters(choice: Choice, allowed: set[int]) -> None:
    """Probabilities 0.64, 0.24, 0.09, 0.03."""
    picked = set()
    for uniform in (0.0, 0.3, 0.6, 0.8, 0.95, choice.uniform):
        logits = torch.tensor([[3.0, 2.0, 1.0, 0.0]])
        chosen = Choice(choice.temperature, choice.top_p, choice.top_k, choice.min_p, uniform, choice.banned)
        picked.update(choose(logits, [chosen]))
    assert picked == allowed


def test_rows_are_sampled_on_their_own() -> None:
    logits = torch.tensor([[0.0, 9.0, 0.0], [5.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    mixed = [GREEDY, Choice(1.0, 0.5, -1, 0.0, 0.9), Choice(1.0, 1.0, -1, 0.0, 0.99)]
    assert choose(logits, mixed) == [1, 0, 2]
