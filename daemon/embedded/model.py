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

    After a prefill `logits` has the last row only.
    """

    logits: Tensor
    last: Tensor
    aux: dict[int, Tensor] = field(default_factory=dict)


class KVCache:
    """Keys and values of every layer by slot: [layers, 2, slots, heads, capacity, head_dim]; grows when needed."""

    def __init__(self, config: ModelConfig, slots: int, capacity: int = 256) -> None:
        self.context = config.max_position_embeddings
        self.capacity = min(capacity, self.context)
        self._shape = (config.num_hidden_layers, 2, slots, config.num_attention_heads)
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

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of slot `source` to slot `target`."""
        self.data[:, :, target, :, :length] = self.data[:, :, source, :, :length]


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
        qkv = self.qkv_proj(hidden).view(count, 3, self.heads, self.head_dim)
        query_key = _rotate(qkv[:, :2], current.cos, current.sin)
        query, key, value = query_key[:, 0], query_key[:, 1], qkv[:, 2]
        keys, values = current.cache.data[self.layer]
        if current.rows is None:
            out = self._prefill(current, keys, values, query, key, value)
        else:
            keys[current.rows, :, current.positions] = key
            values[current.rows, :, current.positions] = value
            out = F.scaled_dot_product_attention(
                query[:, :, None], keys[:count, :, : current.longest], values[:count, :, : current.longest],
                attn_mask=current.mask,
            ).squeeze(2)  # fmt: skip
        projected: Tensor = self.o_proj(out.reshape(count, -1))
        return projected

    @staticmethod
    def _prefill(current: _Pass, keys: Tensor, values: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        start, end = current.start, current.start + query.shape[0]
        keys[current.slot, :, start:end] = key.transpose(0, 1)
        values[current.slot, :, start:end] = value.transpose(0, 1)
        out = F.scaled_dot_product_attention(
            query.transpose(0, 1)[None],
            keys[None, current.slot, :, :end],
            values[None, current.slot, :, :end],
            attn_mask=current.mask,
            is_causal=current.mask is None,
        )
        return out[0].transpose(0, 1)


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
        self._cos = torch.cat([angles.cos(), angles.cos()], dim=-1)
        self._sin = torch.cat([angles.sin(), angles.sin()], dim=-1)

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
            mask = torch.arange(end)[None, :] <= positions[:, None]
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
        mask = (torch.arange(longest)[None, :] <= where[:, None])[:, None, None, :]
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
            if index in capture:
                aux[index] = hidden + residual
        last, _ = self.norm(hidden, residual)
        logits: Tensor = self.lm_head(last[-1:] if last_only else last)
        if self.eos_bias:
            logits[:, self.config.eos_token_id] += self.eos_bias
        return ModelOutput(logits, last, aux)


def _rotate(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding, the half-split way of Llama: states [T, 2, heads, D], cos and sin [T, D]."""
    first, second = states.chunk(2, dim=-1)
    return states * cos[:, None, None] + torch.cat([-second, first], dim=-1) * sin[:, None, None]


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
    greedy: list[int] = logits.argmax(dim=-1).tolist()
    rows = [row for row, choice in enumerate(choices) if choice.temperature > 0 and choice.top_k != 1]
    if not rows:
        return greedy
    picked = [choices[row] for row in rows]
    scaled = logits[rows] / torch.tensor([choice.temperature for choice in picked])[:, None]
    probabilities, order = scaled.softmax(dim=-1).sort(dim=-1, descending=True)
    size = logits.shape[-1]
    keep = torch.tensor([min(choice.top_k, size) if choice.top_k > 0 else size for choice in picked])
    drop = torch.arange(size)[None, :] >= keep[:, None]
    before = probabilities.cumsum(dim=-1) - probabilities
    drop |= before > torch.tensor([choice.top_p for choice in picked])[:, None]
    drop |= probabilities < probabilities[:, :1] * torch.tensor([choice.min_p for choice in picked])[:, None]
    drop[:, 0] = False
    cumulative = probabilities.masked_fill(drop, 0.0).cumsum(dim=-1)
    target = cumulative[:, -1:] * torch.tensor([choice.uniform for choice in picked])[:, None]
    column = torch.searchsorted(cumulative, target, right=True).clamp(max=size - 1)
    for row, token in zip(rows, order.gather(1, column)[:, 0].tolist(), strict=True):
        greedy[row] = token
    return greedy


def limit_threads() -> None:
    """One thread: the matrices are tiny, and the server shares its machine with the daemon and the TUI."""
    torch.set_num_threads(1)
