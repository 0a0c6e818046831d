"""Stands in for the parts of SGLang that the plugin reads: modules, settings, a model runner."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from daemon.sglang_plugin.eagle3_sglang.plugin import Hook, Settings
from tests.daemon.sglang_plugin.dumps import CONTEXT, HIDDEN
from tests.daemon.sglang_plugin.passes import forward_pass

EPS = 1e-5


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.5, 1.0, 2.0, 4.0]))
        self.variance_epsilon = EPS


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = RMSNorm()
        self.layers_to_capture = [2, 3]


@dataclass
class Sglang:
    """Settings as a server has them that was started as `eagle3 server-args` says; change what is to be wrong."""

    monkeypatch: pytest.MonkeyPatch
    features: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            aux_hidden_state_capture="eagle3",
            return_aux_hidden_state_layer_ids=[1, 2],
            return_hidden_states_mode="full",
        )
    )
    parallel: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            attn_tp_rank=0, attn_cp_rank=0, attn_dp_rank=0, attn_dp_size=1, dp_rank=None, pp_size=1
        )
    )
    memory: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(disable_radix_cache=True))
    schedule: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(enable_mixed_chunk=False))
    registered: list[tuple[str, Any, str]] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runner = SimpleNamespace(
            is_draft_worker=False,
            model=Model(),
            spec_algorithm=SimpleNamespace(is_none=lambda: True),
            server_args=SimpleNamespace(port=30000, disaggregation_mode="null"),
            model_config=SimpleNamespace(
                model_path="some/model",
                hf_config=SimpleNamespace(architectures=["LlamaForCausalLM"]),
                hf_text_config=SimpleNamespace(num_hidden_layers=8),
                hidden_size=HIDDEN,
                dtype=torch.float32,
                context_len=CONTEXT,
            ),
        )

    def install(self, version: str = "0.5.23", forward: Any = None) -> None:
        """Make it importable."""

        def known(self: Any, forward_batch: Any, reinit: bool = False) -> None: ...

        runners = SimpleNamespace(forward=forward or known)
        registry = SimpleNamespace(register=lambda *what: self.registered.append(what))
        self._module("sglang.version", __version__=version)
        self._module("sglang.srt.model_executor.model_runner", ModelRunner=runners)
        self._module("sglang.srt.plugins.hook_registry", HookRegistry=registry, HookType=SimpleNamespace(AFTER="after"))
        self._module(
            "sglang.srt.runtime_context",
            get_exec=lambda: SimpleNamespace(features=self.features),
            get_parallel=lambda: self.parallel,
            get_memory=lambda: self.memory,
            get_schedule=lambda: self.schedule,
        )

    def _module(self, name: str, **content: Any) -> None:
        module = ModuleType(name)
        vars(module).update(content)
        self.monkeypatch.setitem(sys.modules, name, module)

    def hook(self) -> Hook:
        """Return the hook of a process with the environment as it is."""
        settings = Settings.read()
        assert settings is not None, os.environ
        self.hooks.append(Hook(settings, "0.5.23"))
        return self.hooks[-1]

    def close(self) -> None:
        """End the writers' threads."""
        for hook in self.hooks:
            if hook._scheduler is not None and hook._scheduler._writer is not None:
                hook._scheduler._writer.close()

    def feed(self, hook: Hook, mode: str, *segments: tuple[str, int, int]) -> None:
        """Let one pass run, and what it gave be written."""
        hook(*self.passed(mode, *segments))
        if hook._scheduler is not None and hook._scheduler._writer is not None:
            hook._scheduler._writer.flush()

    def passed(self, mode: str, *segments: tuple[str, int, int]) -> tuple[Any, Any, Any]:
        result, batch = forward_pass(mode, *segments)
        return result, self.runner, batch
