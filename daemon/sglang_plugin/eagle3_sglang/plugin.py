"""The plugin itself: what SGLang calls in each of its processes, and what is hooked there.

Nothing here may end a server: what goes wrong is said in its log, the hidden states stay away, serving goes on.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import multiprocessing
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from torch import Tensor  # noqa: TID251

from .about import ADVICE, Described, bare, describe
from .capture import Capture, NotCaptured
from .dump_format import OVER_WEIGHT, POST, RID, About, DumpFormatError
from .instance_files import write_instance
from .writer import DumpWriter

TARGET: Final = "sglang.srt.model_executor.model_runner.ModelRunner.forward"
OLDEST: Final = (0, 5, 23)
logger = logging.getLogger("eagle3_sglang")


class BadSettings(ValueError):
    """Environment variables that cannot be used; the message names the one."""


@dataclass(frozen=True)
class Settings:
    """From the environment."""

    folder: Path
    norm: str
    most_pending_bytes: int

    @classmethod
    def read(cls) -> Settings | None:
        """Return them; None where no dump folder is named, and nothing is to be done.

        Raises:
            BadSettings: A variable has a value that it cannot have.
        """
        folder = os.environ.get("EAGLE3_DUMP_DIR")
        if not folder:
            return None
        norm = os.environ.get("EAGLE3_NORM") or POST
        pending = os.environ.get("EAGLE3_PENDING_MB") or "1024"
        if not Path(folder).is_absolute():
            raise BadSettings(f"EAGLE3_DUMP_DIR must be an absolute path, not {folder!r}")
        if norm not in (POST, OVER_WEIGHT):
            raise BadSettings(f"EAGLE3_NORM must be {POST} or {OVER_WEIGHT}, not {norm!r}")
        if not re.fullmatch(r"[1-9]\d{0,6}", pending):
            raise BadSettings(f"EAGLE3_PENDING_MB must be a number of megabytes, not {pending!r}")
        return cls(Path(folder), norm, int(pending) << 20)


def register() -> None:
    """Entry point: hook the runner's forward pass, or say why not."""
    try:
        settings = Settings.read()
    except BadSettings as error:
        logger.error("eagle3: no hidden states are dumped: %s", error)
        return
    if settings is None:
        logger.warning("eagle3: EAGLE3_DUMP_DIR is not set, so no hidden states are dumped")
        return
    version = sglang_version()
    why = objection(version)
    if why is None:
        registry = importlib.import_module("sglang.srt.plugins.hook_registry")
        registry.HookRegistry.register(TARGET, Hook(settings, version), registry.HookType.AFTER)
    elif multiprocessing.parent_process() is None:  # once for the server, not in each of its processes
        _refuse(settings, bare(sglang=version, norm=settings.norm, refusal=why))


def sglang_version() -> str:
    """Return SGLang's version, or ``unknown``."""
    return str(getattr(importlib.import_module("sglang.version"), "__version__", "unknown"))


def objection(version: str) -> str | None:
    """Return why nothing can be hooked in this SGLang, or None."""
    if version_tuple(version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return f"SGLang {version} is older than {oldest}, the first that hands over what is needed"
    forward = getattr(importlib.import_module("sglang.srt.model_executor.model_runner").ModelRunner, "forward", None)
    names = list(inspect.signature(forward).parameters) if callable(forward) else []
    if names[:2] != ["self", "forward_batch"]:
        return f"SGLang {version} has a ModelRunner.forward{tuple(names)} that this plugin does not know"
    return None


def version_tuple(version: str) -> tuple[int, ...]:
    """Return the leading numbers; a version that begins with none is older than all."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


class Hook:
    """Called after each forward pass of every model runner of this process."""

    def __init__(self, settings: Settings, version: str) -> None:
        self._settings = settings
        self._version = version
        self._scheduler: _Scheduler | None = None
        self._told: set[str] = set()

    def __call__(self, result: Any, runner: Any, forward_batch: Any, *_: Any, **__: Any) -> None:
        """Take the rows of our requests; raises nothing, whatever another SGLang hands over."""
        try:
            if runner.is_draft_worker:
                return
            if self._scheduler is None:
                self._scheduler = _start(runner, self._settings, self._version)
            self._scheduler.take(result, forward_batch)
        except NotCaptured as error:
            self._refuse(error.rids, str(error))
        except Exception as error:  # noqa: BLE001 - serving goes on whatever happens here
            self._refuse(list(getattr(forward_batch, "rids", None) or ()), f"{type(error).__name__}: {error}")

    def _refuse(self, rids: list[str], why: str) -> None:
        if why not in self._told and len(self._told) < 100:
            self._told.add(why)
            logger.error("eagle3: no hidden states of a pass: %s", why)
        if self._scheduler is None:
            self._scheduler = _Scheduler(None, None)  # it would fail at each pass
        self._scheduler.refuse(rids, why)


class _Scheduler:
    """What is dumped of the one target model that runs in this process; nothing without a writer."""

    def __init__(self, writer: DumpWriter | None, over_weight: Callable[[Tensor], Tensor] | None) -> None:
        self._writer = writer
        self._capture = Capture(over_weight)

    def take(self, result: Any, forward_batch: Any) -> None:
        if self._writer is None:
            return
        for batch in self._capture.batches(result, forward_batch):
            self._writer.put(batch)

    def refuse(self, rids: list[str], why: str) -> None:
        if self._writer is not None:
            self._writer.refuse([rid for rid in rids if RID.fullmatch(rid)], why)


def _start(runner: Any, settings: Settings, version: str) -> _Scheduler:
    parallel = importlib.import_module("sglang.srt.runtime_context").get_parallel()
    if parallel.attn_tp_rank != 0 or parallel.attn_cp_rank != 0:
        return _Scheduler(None, None)  # another rank has the same rows
    described = describe(runner, version, settings.norm)
    about = described.about
    if about.refusal is not None:
        _refuse(settings, about)
        return _Scheduler(None, None)
    try:
        return _dumping(described, settings)
    except (OSError, DumpFormatError) as error:
        logger.error("eagle3: no hidden states are dumped: %s: %s. %s", settings.folder, error, ADVICE)
        return _Scheduler(None, None)


def _dumping(described: Described, settings: Settings) -> _Scheduler:
    about, norm = described.about, described.norm
    assert norm is not None
    writer = DumpWriter(
        settings.folder,
        about,
        most_pending_bytes=settings.most_pending_bytes,
        log=lambda line: logger.warning("eagle3: %s", line),
    )
    weight = norm.weight.cpu().contiguous()
    _keep(write_instance(settings.folder, about, weight.numpy().astype("<f4").tobytes()))
    logger.warning(
        "eagle3: hidden states go to %s: outputs of layers %s (ids %s), then the last, %s; %s x %s, %s",
        settings.folder,
        list(about.layers),
        list(about.server_layers),
        about.norm,
        len(about.layers) + 1,
        about.hidden_size,
        about.dtype,
    )
    return _Scheduler(writer, norm.over_weight if settings.norm == OVER_WEIGHT else None)


def _refuse(settings: Settings, about: About) -> None:
    logger.error("eagle3: no hidden states are dumped: %s", about.refusal)
    try:
        _keep(write_instance(settings.folder, about, None))
    except OSError as error:
        logger.error("eagle3: %s: %s", settings.folder, error)


_kept: list[int] = []


def _keep(descriptor: int) -> None:
    """Hold a lock until the process ends."""
    _kept.append(descriptor)
