"""Stands in for sglang-kernel, of which there is no CPU build.

SGLang imports one of its names unconditionally (mem_cache/allocation.py); that one works here. Anything else
raises when it is called. `convert_weight_packed` must not exist: SGLang takes it as the sign of AMX kernels.
"""

from __future__ import annotations

from typing import Any

import torch


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """Write each request's next cache slots into its row of the token table, in place.

    Args:
        req_pool_indices: [B], the row of each request.
        req_to_token: [pool size, pool_len], the table.
        start_offset: [B], first position to fill.
        end_offset: [B], one past the last.
        out_cache_loc: [sum of end - start], slots of all requests in order.
        pool_len: Width of the table.
    """
    rows = req_pool_indices.tolist()
    taken = 0
    for row, start, end in zip(rows, start_offset.tolist(), end_offset.tolist(), strict=True):
        count = end - start
        req_to_token[row, start:end] = out_cache_loc[taken : taken + count].to(req_to_token.dtype)
        taken += count


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name == "convert_weight_packed":
        raise AttributeError(name)

    def unavailable(*args: object, **kwargs: object) -> None:
        raise NotImplementedError(f"sgl_kernel.{name}: not in this stand-in (tests/sglang/support)")

    return unavailable
