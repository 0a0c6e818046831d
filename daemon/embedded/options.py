"""How an embedded server is started: one dataclass, filled by the command line or by a test."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from daemon.embedded.config import PACKAGED_MODEL_PATH, load_config
from daemon.embedded.dump_faults import DumpFaults
from daemon.embedded.faults import Faults
from daemon.sglang_plugin.eagle3_sglang.dump_format import OVER_WEIGHT, POST

DUMP_NORMS = (POST, OVER_WEIGHT)
DUMP_DTYPES = ("float32", "bfloat16")


@dataclass
class Options:
    """Names and meaning are those of the command line (`arguments.build_parser`); the defaults too.

    Raises:
        ValueError: a count is less than 1, or the layers cannot be captured.
    """

    host: str = "127.0.0.1"
    port: int = 0
    port_file: Path | None = None
    model_dir: Path | None = None
    served_model_name: str | None = None
    no_model: bool = False
    seed: int = 0
    eos_bias: float = 0.0
    max_running_requests: int = 64
    max_queued_requests: int | None = None
    max_total_tokens: int | None = None
    api_key: str | None = None
    skip_tokenizer_init: bool = False
    enable_metrics: bool = False
    length_median: float = 256.0
    length_sigma: float = 0.6
    fixed_length: int | None = None
    health_delay: float = 0.0
    health_timeout: float = 20.0
    keep_alive: float = 5.0
    chunked_prefill_size: int = 4096
    radix_cache: bool = False
    retract_every: int | None = None
    dump_dir: Path | None = None
    dump_layers: tuple[int, ...] = (1, 3, 4)
    dump_norm: str = POST
    dump_dtype: str = "float32"
    dump_token_rows: bool = False
    dump_refusal: str | None = None
    dump_faults: DumpFaults = field(default_factory=DumpFaults)
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        if self.max_running_requests < 1:
            raise ValueError(f"max_running_requests must be at least 1, not {self.max_running_requests}")
        if self.fixed_length is not None and self.fixed_length < 1:
            raise ValueError(f"fixed_length must be at least 1, not {self.fixed_length}")
        if self.chunked_prefill_size < 1:
            raise ValueError(f"chunked_prefill_size must be at least 1, not {self.chunked_prefill_size}")
        if self.retract_every is not None and self.retract_every < 1:
            raise ValueError(f"retract_every must be at least 1, not {self.retract_every}")
        self._check_dump()

    def _check_dump(self) -> None:
        layers, last = self.dump_layers, load_config().num_hidden_layers - 1
        if not layers or len(set(layers)) != len(layers) or min(layers) < 0 or max(layers) >= last:
            raise ValueError(
                f"dump_layers must be different ids of 0..{last - 1}, not {list(layers)}: 0-based outputs of a "
                f"model with {last + 1} layers, whose last one is dumped in any case"
            )
        if self.dump_norm not in DUMP_NORMS:
            raise ValueError(f"dump_norm must be one of {', '.join(DUMP_NORMS)}, not {self.dump_norm}")
        if self.dump_dtype not in DUMP_DTYPES:
            raise ValueError(f"dump_dtype must be one of {', '.join(DUMP_DTYPES)}, not {self.dump_dtype}")

    @property
    def model_path(self) -> Path:
        """The folder with `config.json` that the server reports."""
        return self.model_dir or PACKAGED_MODEL_PATH

    @property
    def model_name(self) -> str:
        """What clients see as the model's name; the model path unless it was given, as in SGLang."""
        return self.served_model_name or str(self.model_path)
