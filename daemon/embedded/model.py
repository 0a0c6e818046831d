"""A tiny, seeded, real Llama-like transformer in float32, with a KV cache and batched decoding.

Decoder layers keep SGLang's calling convention, `layer(positions, hidden_states, residual) -> (hidden_states,
residual)`: a layer's output in the sense of transformers' `hidden_states[L + 1]` is the **sum** of the two, and it
is what `ModelOutput.aux` holds for the 0-based output layer ids that were asked for. `last` is after the final norm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch  # noqa: TID251
import torch.nn.functional as F  # noqa: TID251
from torch import Tensor, nn  # noqa: TID251

from daemon.embedded.config import ModelConfig


@dataclass(slots=True)
class ModelOutput:
    """What one forward pass gives, one row per token fed: logits [T, vocab], last [T, H], aux {layer: [T, H]}.

    After a prefill `logits` has the last row only. `ids` and `positions` [T] are what was fed.
    """

    logits: Tensor
    last: Tensor
    ids: Tensor
    positions: Tensor
    aux: dict[int, Tensor] = field(default_factory=dict)


class KVCache:
    """Keys and values of every layer by slot: [layers, slots, 2, heads, capacity, head_dim]; grows when needed."""

    def __init__(self, config: ModelConfig, slots: int, capacity: int = 256) -> None:
        self.context = config.max_position_embeddings
        self.capacity = min(capacity, self.context)
        self._shape = (config.num_hidden_layers, slots, 2, config.num_attention_heads)
        self._head_dim = config.head_dim
        self.data = torch.zeros(*self._shape, self.capacity, config.head_dim)

    def reserve(self, length: int) -> None:
        """Make room for sequences of `length` tokens.

        Raises:
            ValueError: `length` exceeds the context.
        """
        if length > self.context:
            raise ValueError(f"{length} tokens do not fit a context of {self.context}")
        if length <= self.capacity:
            return
        capacity = self.capacity
        while capacity < length:
            capacity = min(2 * capacity, self.context)
        grown = torch.zeros(*self._shape, capacity, self._head_dim)
        grown[..., : self.capacity, :] = self.data
        self.data, self.capacity = grown, capacity

    @torch.inference_mode()
    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of slot `source` to slot `target`."""
        self.data[:, target, :, :, :length] = self.data[:, source, :, :, :length]


@dataclass(slots=True)
class _Pass:
    """What the attention layers must know of the current pass (SGLang's forward batch)."""

    cache: KVCache
    cos: Tensor
    sin: Tensor
    slot: int = 0
    """Prefill: the slot that is filled."""
    start: int = 0
    """Prefill: the first position that is fed."""
    rows: Tensor | None = None
    """Decode: the slots, one token each; None in a prefill."""
    positions: Tensor | None = None
    mask: Tensor | None = None
    longest: int = 0


class RMSNorm(nn.Module):
    """Root-mean-square norm; with a residual it adds first, and gives the sum back as the new residual."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, hidden: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return (normed sum, sum)."""
        total = hidden if residual is None else hidden + residual
        return F.rms_norm(total, self.weight.shape, self.weight, self.eps), total


class Attention(nn.Module):
    """Multi-head attention with rotary positions over the cache of the current pass."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.heads, self.head_dim = layer, config.num_attention_heads, config.head_dim
        width = self.heads * self.head_dim
        self.qkv_proj = nn.Linear(config.hidden_size, 3 * width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)
        self.current: _Pass | None = None

    def forward(self, positions: Tensor, hidden: Tensor) -> Tensor:
        """Attend; `positions` [T] is there for the convention, the pass holds the rotations already."""
        current = self.current
        assert current is not None, "the model sets the pass before it calls its layers"
        count = positions.shape[0]
        qkv: Tensor = self.qkv_proj(hidden).view(count, 3, self.heads, self.head_dim)
        qkv[:, :2] = _rotate(qkv[:, :2], current.cos, current.sin)
        layer = current.cache.data[self.layer]
        if current.rows is None:
            end = current.start + count
            layer[current.slot, :, :, current.start : end] = qkv[:, 1:].permute(1, 2, 0, 3)
            keys, values = layer[current.slot, :, :, :end]
            query = qkv[:, 0].transpose(0, 1)
            out = F.scaled_dot_product_attention(
                query[None], keys[None], values[None], attn_mask=current.mask, is_causal=current.mask is None
            )
            out = out[0].transpose(0, 1)
        else:
            layer[current.rows, :, :, current.positions] = qkv[:, 1:]
            keys, values = layer[:count, :, :, : current.longest].unbind(1)
            out = F.scaled_dot_product_attention(qkv[:, 0, :, None], keys, values, attn_mask=current.mask)
        projected: Tensor = self.o_proj(out.reshape(count, -1))
        return projected


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Down(silu(gate) * up)."""
        gate, up = self.gate_up_proj(hidden).chunk(2, dim=-1)
        out: Tensor = self.down_proj(F.silu(gate) * up)
        return out


class DecoderLayer(nn.Module):
    """One Llama layer in SGLang's convention."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.self_attn = Attention(config, layer)
        self.mlp = MLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, positions: Tensor, hidden: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        """`positions` [T], `hidden` and `residual` [T, H]; the layer's output is the sum of what is returned."""
        hidden, residual = self.input_layernorm(hidden, residual)
        hidden = self.self_attn(positions, hidden)
        hidden, residual = self.post_attention_layernorm(hidden, residual)
        return self.mlp(hidden), residual


class TinyLlama(nn.Module):
    """The model: embeddings, layers, final norm, head; random weights that depend on the seed alone."""

    def __init__(self, config: ModelConfig, seed: int = 0, eos_bias: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config, index) for index in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.eos_bias = eos_bias
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if "norm" in name:  # not all ones: a reader who forgets the norm must get other numbers
                    weight.uniform_(0.5, 1.5, generator=generator)
                else:
                    weight.normal_(0.0, config.initializer_range, generator=generator)
                weight.requires_grad_(False)
        steps = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        angles = torch.outer(torch.arange(config.max_position_embeddings), config.rope_theta**-steps)
        self._cos = torch.cat([angles.cos(), angles.cos()], dim=-1)[:, None, None]
        self._sin = torch.cat([-angles.sin(), angles.sin()], dim=-1)[:, None, None]

    @torch.inference_mode()
    def prefill(
        self, ids: Sequence[int], cache: KVCache, slot: int, start: int = 0, capture: Sequence[int] = ()
    ) -> ModelOutput:
        """Feed the prompt `ids` (or its chunk from position `start`) into `slot`; logits of the last token only."""
        end = start + len(ids)
        cache.reserve(end)
        positions = torch.arange(start, end)
        mask = None
        if start:
            mask = _hide(torch.arange(end)[None, :] > positions[:, None])
        current = _Pass(cache, self._cos[positions], self._sin[positions], slot=slot, start=start, mask=mask)
        return self._forward(torch.tensor(ids), positions, current, capture, last_only=True)

    @torch.inference_mode()
    def decode(
        self, ids: Sequence[int], positions: Sequence[int], cache: KVCache, capture: Sequence[int] = ()
    ) -> ModelOutput:
        """Feed one token to each of the slots 0..len(ids)-1, at its own position."""
        longest = max(positions) + 1
        cache.reserve(longest)
        where = torch.tensor(positions)
        mask = _hide(torch.arange(longest)[None, :] > where[:, None])[:, None, None, :]
        current = _Pass(
            cache, self._cos[where], self._sin[where],
            rows=torch.arange(len(ids)), positions=where, mask=mask, longest=longest,
        )  # fmt: skip
        return self._forward(torch.tensor(ids), where, current, capture, last_only=False)

    def _forward(
        self, ids: Tensor, positions: Tensor, current: _Pass, capture: Sequence[int], last_only: bool
    ) -> ModelOutput:
        hidden: Tensor = self.embed_tokens(ids)
        residual: Tensor | None = None
        aux: dict[int, Tensor] = {}
        for index, layer in enumerate(self.layers):
            layer.self_attn.current = current  # type: ignore[union-attr]
            hidden, residual = layer(positions, hidden, residual)
            if index in capture:  # the next norm would make the same sum; so nothing is computed twice
                aux[index] = hidden = hidden + residual
                residual = None
        last, _ = self.norm(hidden, residual)
        logits: Tensor = self.lm_head(last[-1:] if last_only else last)
        if self.eos_bias:
            logits[:, self.config.eos_token_id] += self.eos_bias
        return ModelOutput(logits, last, ids, positions, aux)


def _hide(hidden: Tensor) -> Tensor:
    """An additive attention mask; made once a pass, where a boolean one is converted in every layer."""
    return torch.zeros(hidden.shape).masked_fill_(hidden, -math.inf)


def _rotate(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding, Llama's half-split way: states [T, 2, heads, D]; cos and sin [T, 1, 1, D], sin with signs."""
    first, second = states.chunk(2, dim=-1)
    return torch.addcmul(states * cos, torch.cat([second, first], dim=-1), sin)


@dataclass(slots=True)
class Choice:
    """How one row's next token is chosen; temperature 0 is greedy, `uniform` in [0, 1) decides otherwise."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    uniform: float
    banned: Sequence[int] = ()


@torch.inference_mode()
def choose(logits: Tensor, choices: Sequence[Choice]) -> list[int]:
    """The next token of each row of `logits` [B, vocab]; the same row and `uniform` give the same token."""
    for row, choice in enumerate(choices):
        if choice.banned:
            logits[row, list(choice.banned)] = -math.inf
    rows = [row for row, choice in enumerate(choices) if choice.temperature > 0 and choice.top_k != 1]
    tokens: list[int] = [0] * len(choices) if len(rows) == len(choices) else logits.argmax(dim=-1).tolist()
    if not rows:
        return tokens
    picked = [choices[row] for row in rows]
    scaled = logits[rows] / torch.tensor([choice.temperature for choice in picked])[:, None]
    uniforms = torch.tensor([choice.uniform for choice in picked])[:, None]
    if all(choice.top_k <= 0 and choice.top_p >= 1 and choice.min_p <= 0 for choice in picked):
        cumulative = scaled.softmax(dim=-1).cumsum(dim=-1)
        column = torch.searchsorted(cumulative, cumulative[:, -1:] * uniforms, right=True)
        for row, token in zip(rows, column.clamp_(max=logits.shape[-1] - 1)[:, 0].tolist(), strict=True):
            tokens[row] = token
        return tokens
    probabilities, order = scaled.softmax(dim=-1).sort(dim=-1, descending=True)
    size = logits.shape[-1]
    keep = torch.tensor([min(choice.top_k, size) if choice.top_k > 0 else size for choice in picked])
    drop = torch.arange(size)[None, :] >= keep[:, None]
    before = probabilities.cumsum(dim=-1) - probabilities
    drop |= before > torch.tensor([choice.top_p for choice in picked])[:, None]
    drop |= probabilities < probabilities[:, :1] * torch.tensor([choice.min_p for choice in picked])[:, None]
    drop[:, 0] = False
    cumulative = probabilities.masked_fill(drop, 0.0).cumsum(dim=-1)
    column = torch.searchsorted(cumulative, cumulative[:, -1:] * uniforms, right=True)
    column = torch.minimum(column, (~drop).sum(dim=-1, keepdim=True) - 1)  # what is kept is a prefix of the order
    for row, token in zip(rows, order.gather(1, column)[:, 0].tolist(), strict=True):
        tokens[row] = token
    return tokens


def limit_threads() -> None:
    """One thread: the matrices are tiny, and the server shares its machine with the daemon and the TUI."""
    torch.set_num_threads(1)
