"""``run.toml``, typed: every wrong key or value is refused with its place and, for keys, a suggestion."""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from contracts.records import Stage
from contracts.sglang import SAMPLING_FIELDS

Positive = Annotated[int, msgspec.Meta(ge=1)]
PositiveSeconds = Annotated[float, msgspec.Meta(gt=0)]
Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class ConfigError(Exception):
    """A run.toml that cannot be used; the message names the file, the place and what would be right."""


class _Table(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Base of all tables: unknown keys are errors."""


class Run(_Table):
    """``[run]``."""

    name: Name
    stages: list[str] = msgspec.field(default_factory=lambda: ["generate"])


class Generate(_Table):
    """``[generate]``: how responses are made."""

    concurrency: Positive = 256
    target_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Completion tokens of each data set; None: every prompt once."""
    request_timeout_s: PositiveSeconds = 1800.0
    """Longest time one answer may take before it is given up (and aborted on the server)."""
    connect_timeout_s: PositiveSeconds = 10.0
    max_attempts: Positive = 5
    """Charged attempts of one sample before it is quarantined."""
    retry_base_s: PositiveSeconds = 1.0
    retry_max_s: PositiveSeconds = 120.0
    over_long: str = "refuse"
    """``refuse`` or ``clip``: what to do when prompt + max_new_tokens exceeds the context."""
    vocab_size: Positive | None = None
    """Only where no server tells (see ``eagle3 check``)."""
    context_length: Positive | None = None
    think_end_token: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Id of the token that closes the thinking part, to watch that answers hold it."""


class Extract(_Table):
    """``[extract]``: hidden states, for runs with the stage extract."""

    capture: str = "generating"
    """``generating``: in the same pass as the answer; ``afterwards``: by a prefill pass over the whole sequence."""
    layers: list[Annotated[int, msgspec.Meta(ge=0)]] = []
    """0-based **output** ids, ascending; needed. ``eagle3 server-args`` turns them into the server's own ids."""
    layout: str = "safetensors"
    """``safetensors``, ``specforge``, ``speculators`` or ``modelopt``: what the store is written as."""
    dump_dir: str = "/dev/shm/sglang_hs"
    """Where SGLang's plugin writes rows, on this machine; memory, not a disk."""
    dump_budget_gb: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Most that dumps of this run may take there; None: 80 % of what is free, as that changes."""
    concurrency: Positive = 16
    """Open prefill passes."""
    max_tokens: Positive | None = None
    """Longest sample; longer ones are treated as ``over_long`` says. A data set may have its own."""
    over_long: str = "skip"
    """``skip`` or ``truncate``."""
    dump_wait_s: PositiveSeconds = 30.0
    """How long after its answer the last rows of a sample may take to appear in the dump folder."""
    model: str | None = None
    """Folder or name of the model, for ``eagle3 server-args``; a local folder tells its architecture."""
    draft_vocab_size: Positive | None = None
    """Draft vocabulary, for the maps that SpecForge and speculators read; None: no maps are made."""


class Server(_Table):
    """One ``[[servers]]``."""

    url: Annotated[str, msgspec.Meta(pattern=r"^https?://[^\s/]+/?$")]
    api_key: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable that holds the key: keeps it out of the file."""


class Dataset(_Table):
    """One ``[[datasets]]``."""

    name: Name
    prompts: str | None = None
    """A file to import; ``prepared/<name>/prompts.jsonl`` when absent. Relative to run.toml."""
    target_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    responses: str | None = None
    """Responses of an earlier or foreign run, of any known shape, to take over. Relative to run.toml."""
    max_tokens: Positive | None = None
    """Longest sample whose hidden states are stored; see ``[extract]``."""


class Tokenizer(_Table):
    """``[tokenizer]``: only for prompt files that hold text."""

    path: str
    """``bytes`` (byte-level ids, for the embedded model) or a local tokenizer folder (extra ``tokenize``)."""
    system_prompt: str | None = None


class Alerts(_Table):
    """``[alerts]``: thresholds; see docs/alerts.md for what each means."""

    stall_after_s: PositiveSeconds = 300.0
    old_request_s: PositiveSeconds = 600.0
    slow_share_pct: Percent = 33.0
    heartbeat_stale_s: PositiveSeconds = 15.0
    telemetry_stale_s: PositiveSeconds = 30.0
    length_share_pct: Percent = 10.0
    failure_share_pct: Percent = 5.0
    abort_share_pct: Percent = 5.0
    think_end_missing_pct: Percent = 20.0
    refused_share_pct: Percent = 10.0
    """Share of a data set's prompts that cannot be used."""
    capture_failure_pct: Percent = 5.0
    """Share of captures whose hidden states failed a check."""
    no_room_pct: Percent = 20.0
    """Share of captures that were given up because the dump folder was full."""
    skipped_share_pct: Percent = 10.0
    """Share of a data set's samples that are too long for their hidden states to be stored."""
    min_samples: Positive = 50
    """Shares are judged only over at least this many recent outcomes."""
    disk_free_min_gb: Annotated[float, msgspec.Meta(ge=0)] = 5.0


class Telemetry(_Table):
    """``[telemetry]``."""

    interval_s: PositiveSeconds = 1.0
    rotate_mb: Positive = 64
    gpus: bool = True


class RunConfig(_Table):
    """The whole file."""

    run: Run
    servers: list[Server]
    datasets: list[Dataset]
    sampling: dict[str, Any] = {}
    generate: Generate = msgspec.field(default_factory=Generate)
    extract: Extract = msgspec.field(default_factory=Extract)
    tokenizer: Tokenizer | None = None
    alerts: Alerts = msgspec.field(default_factory=Alerts)
    telemetry: Telemetry = msgspec.field(default_factory=Telemetry)

    def target_of(self, dataset: Dataset) -> int | None:
        """Return the data set's own target, or the default of ``[generate]``."""
        return dataset.target_tokens if dataset.target_tokens is not None else self.generate.target_tokens

    @property
    def generates(self) -> bool:
        """Whether answers are made."""
        return Stage.GENERATE in self.run.stages

    @property
    def extracts(self) -> bool:
        """Whether hidden states are captured and stored."""
        return Stage.EXTRACT in self.run.stages

    @property
    def captures_generating(self) -> bool:
        """Whether hidden states are taken while answers are being generated."""
        return self.generates and self.extracts and self.extract.capture == GENERATING

    def longest_sample(self, dataset: Dataset) -> int | None:
        """Return the data set's own ``max_tokens``, or that of ``[extract]``; None: no limit."""
        return dataset.max_tokens if dataset.max_tokens is not None else self.extract.max_tokens

    @property
    def max_new_tokens(self) -> int:
        """What the server will allow at most: ``[sampling] max_new_tokens``, or SGLang's default of 128."""
        value = self.sampling.get("max_new_tokens", DEFAULT_MAX_NEW_TOKENS)
        return int(value)


DEFAULT_MAX_NEW_TOKENS: Final = 128

_TABLES: Final[dict[str, type[_Table]]] = {
    "run": Run,
    "generate": Generate,
    "extract": Extract,
    "servers": Server,
    "datasets": Dataset,
    "tokenizer": Tokenizer,
    "alerts": Alerts,
    "telemetry": Telemetry,
}
GENERATING: Final = "generating"
AFTERWARDS: Final = "afterwards"
LAYOUTS: Final = ("safetensors", "specforge", "speculators", "modelopt")
_PATTERNS: Final = {
    "^https?": "must be like http://127.0.0.1:30000, without a path",
    "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}": "may hold letters, digits, dots, dashes, underscores after a letter or digit",
}
"""What a pattern that a value does not match asks for, in words."""

_STAGES: Final = (Stage.GENERATE, Stage.EXTRACT)
_INTEGER_SAMPLING: Final = {"max_new_tokens": 0, "min_new_tokens": 0, "top_k": -1}


def load_run_config(path: Path) -> RunConfig:
    """Read and check a run.toml.

    Raises:
        ConfigError: The file is missing, empty, not TOML, or a key or value is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file. Make one with: eagle3 init {path.parent}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    if not text.strip():
        raise ConfigError(
            f"{path}: is empty (was the disk full?). The data beside it is untouched; write the file again, "
            f"for a pattern see: eagle3 init --print"
        )
    return parse_run_config(text, str(path))


def parse_run_config(text: str, source: str = "run.toml") -> RunConfig:
    """Check the text of a run.toml; ``source`` names it in errors.

    Raises:
        ConfigError: As for `load_run_config`.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not valid TOML: {error}") from error
    _refuse_unknown_keys(raw, source)
    try:
        config = msgspec.convert(raw, RunConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {_place(str(error))}") from error
    _check_values(config, source)
    return config


def _refuse_unknown_keys(raw: dict[str, Any], source: str) -> None:
    """Name wrong keys ourselves: msgspec names only the first, and suggests nothing."""
    tops = [*_TABLES, "sampling"]
    for table, value in raw.items():
        if table not in tops:
            raise ConfigError(f"{source}: unknown table [{table}]{_suggest(table, tops)}")
        if table == "sampling":
            continue
        known = list(_TABLES[table].__struct_fields__)
        for index, entry in enumerate(value if isinstance(value, list) else [value]):
            place = f"[[{table}]] number {index + 1}" if isinstance(value, list) else f"[{table}]"
            if not isinstance(entry, dict):
                raise ConfigError(f"{source}: {table} must be a table, written {place}")
            for key in entry:
                if key not in known:
                    raise ConfigError(f"{source}: {place}: unknown key {key!r}{_suggest(key, known)}")


def _check_values(config: RunConfig, source: str) -> None:
    if not config.servers:
        raise ConfigError(f'{source}: no [[servers]]: name at least one, url = "http://127.0.0.1:30000"')
    if not config.datasets:
        raise ConfigError(f"{source}: no [[datasets]]: name at least one")
    for stage in config.run.stages:
        if stage not in _STAGES:
            raise ConfigError(f"{source}: [run] stages: unknown stage {stage!r}{_suggest(stage, _STAGES)}")
    if not config.run.stages:
        raise ConfigError(f"{source}: [run] stages: is empty: name {' or '.join(_STAGES)}, or both")
    if config.extracts:
        _check_extract(config.extract, source)
    names = [dataset.name for dataset in config.datasets]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{source}: [[datasets]]: the name {name!r} stands there {names.count(name)} times")
    if config.generate.over_long not in ("refuse", "clip"):
        raise ConfigError(f'{source}: [generate] over_long must be "refuse" or "clip"')
    _check_sampling(config.sampling, source)


def _check_extract(extract: Extract, source: str) -> None:
    choices = (
        ("capture", extract.capture, (GENERATING, AFTERWARDS)),
        ("layout", extract.layout, LAYOUTS),
        ("over_long", extract.over_long, ("skip", "truncate")),
    )
    for key, value, known in choices:
        if value not in known:
            raise ConfigError(f"{source}: [extract] {key}: unknown {value!r}{_suggest(value, known)}")
    layers = extract.layers
    if not layers:
        raise ConfigError(
            f"{source}: [extract] layers: name the 0-based output ids, ascending; EAGLE-3's usual three of a model "
            f"with n layers are [1, n/2 - 1, n - 4]"
        )
    if layers != sorted(set(layers)):
        raise ConfigError(f"{source}: [extract] layers must ascend, each once: {layers}")
    if extract.layout == "specforge" and len(layers) != 3:
        raise ConfigError(f"{source}: [extract] layers: SpecForge takes 3, not {len(layers)}")


def _check_sampling(sampling: dict[str, Any], source: str) -> None:
    for key in sampling:
        if key not in SAMPLING_FIELDS:
            hint = " (SGLang's name for it is 'max_new_tokens')" if key == "max_tokens" else ""
            raise ConfigError(
                f"{source}: [sampling]: SGLang has no sampling field {key!r}{hint or _suggest(key, SAMPLING_FIELDS)}"
            )
    for key, least in _INTEGER_SAMPLING.items():
        value = sampling.get(key, least)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ConfigError(f"{source}: [sampling] {key} must be a whole number >= {least}, not {value!r}")
    if sampling.get("n", 1) != 1:
        raise ConfigError(f"{source}: [sampling] n must be 1: a sample has one response")


def _suggest(word: str, known: list[str] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f". Did you mean {close[0]!r}?" if close else f". Known: {', '.join(sorted(known))}"


def _place(message: str) -> str:
    """Turn msgspec's ``... - at `$.generate.concurrency``` into words."""
    found = re.search(r" - at `\$\.?(.*)`$", message)
    if not found:
        return message
    what = message[: found.start()]
    for pattern, words in _PATTERNS.items():
        if pattern in what:
            what = words
    return f"{found.group(1)}: {what}"
