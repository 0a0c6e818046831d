"""One GPU, or one MIG slice of it, through NVML -> one `GpuReading`; each value is asked for, and fails, by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from contracts.records import GpuReading
from daemon.telemetry import nvml

UNKNOWN_INDEX: Final = -1
"""``GpuReading.index`` of a MIG slice that NVML doesn't show: the card it is on is not known."""
_MIG_HIDES: Final = "MIG is on: the driver hides utilisation and processes"

_Value = TypeVar("_Value")


@dataclass
class Card:
    """One GPU as found when NVML was last initialised; its identity outlives its loss."""

    index: int
    handle: Any = None
    uuid: str | None = None
    name: str | None = None
    error: Exception | None = None
    """Why the handle or the identity could not be had."""


@dataclass
class Asked:
    """Asks for values one by one, and keeps what came of it."""

    answers: int = 0
    errors: list[Exception] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)

    def get(self, what: str, ask: Callable[..., _Value], *args: object) -> _Value | None:
        """Return one value; None when it can't be had."""
        try:
            value = ask(*args)
        except nvml.NotSupported:
            self.unsupported.append(what)
            return None
        except nvml.Error as error:
            self.errors.append(error)
            return None
        self.answers += 1
        return value


def read_card(library: nvml.Nvml, card: Card, everything: Asked) -> GpuReading:
    """Read a whole GPU; its errors are added to those in ``everything``."""
    if card.handle is None:
        errors = [] if card.error is None else [card.error]
        everything.errors += errors
        asked = Asked(errors=errors)
        return GpuReading(
            index=card.index, uuid=card.uuid, name=card.name, state=_state(asked, None), reason=_reason(asked, None)
        )
    asked, handle = Asked(), card.handle
    mode = Asked().get("MIG", library.nvmlDeviceGetMigMode, handle)
    mig = None if mode is None else bool(mode[0])
    rates = None if mig else asked.get("utilisation", library.nvmlDeviceGetUtilizationRates, handle)
    used, total = _memory(asked.get("memory", library.nvmlDeviceGetMemoryInfo, handle))
    power = asked.get("power", library.nvmlDeviceGetPowerUsage, handle)
    limit = asked.get("power limit", library.nvmlDeviceGetEnforcedPowerLimit, handle)
    celsius = asked.get("temperature", library.nvmlDeviceGetTemperature, handle, nvml.TEMPERATURE_GPU)
    processes = None if mig else asked.get("processes", library.nvmlDeviceGetComputeRunningProcesses, handle)
    everything.errors += asked.errors
    return GpuReading(
        index=card.index,
        uuid=card.uuid,
        name=card.name,
        utilization_pct=None if rates is None else float(rates.gpu),
        memory_used_bytes=used,
        memory_total_bytes=total,
        power_w=None if power is None else power / 1000,
        power_limit_w=None if limit is None else limit / 1000,
        temperature_c=None if celsius is None else float(celsius),
        processes=None if processes is None else len(processes),
        mig=mig,
        state=_state(asked, mig),
        reason=_reason(asked, mig),
    )


def read_slice(library: nvml.Nvml, cards: Sequence[Card], mig_id: str, everything: Asked) -> GpuReading:
    """Read one MIG slice by its id: NVML tells its memory, never its utilisation."""
    for card in cards:
        handle = _slice_handle(library, card, mig_id)
        if handle is None:
            continue
        asked = Asked()
        used, total = _memory(asked.get("memory", library.nvmlDeviceGetMemoryInfo, handle))
        name = asked.get("name", library.nvmlDeviceGetName, handle)
        everything.errors += asked.errors
        return GpuReading(
            index=card.index,
            uuid=mig_id,
            name=name or card.name,
            memory_used_bytes=used,
            memory_total_bytes=total,
            mig=True,
            state=_state(asked, True),
            reason=_reason(asked, True),
        )
    return GpuReading(
        index=UNKNOWN_INDEX,
        uuid=mig_id,
        mig=True,
        state="unknown",
        reason=f"CUDA_VISIBLE_DEVICES names the MIG slice {mig_id}, which NVML does not show",
    )


def _slice_handle(library: nvml.Nvml, card: Card, mig_id: str) -> Any:
    if card.handle is None:
        return None
    quiet = Asked()  # an empty place and a card without MIG are no findings
    for place in range(quiet.get("slices", library.nvmlDeviceGetMaxMigDeviceCount, card.handle) or 0):
        handle = quiet.get("slice", library.nvmlDeviceGetMigDeviceHandleByIndex, card.handle, place)
        if handle is None:
            continue
        uuid = quiet.get("uuid", library.nvmlDeviceGetUUID, handle)
        if uuid is not None and uuid.startswith(mig_id):
            return handle
    return None


def _memory(info: Any) -> tuple[int | None, int | None]:
    """Return (used, total); a total of 0 is how some unified-memory machines say that they don't know."""
    if info is None or not info.total:
        return None, None
    return int(info.used), int(info.total)


def _state(asked: Asked, mig: bool | None) -> str:
    if any(nvml.code(error) in nvml.LOST for error in asked.errors):
        return "lost"
    if not asked.answers:
        return "unknown"
    return "mig" if mig else "ok"


def _reason(asked: Asked, mig: bool | None) -> str | None:
    parts = list(dict.fromkeys(nvml.explain(error) for error in asked.errors))
    if mig:
        parts.append(_MIG_HIDES)
    if asked.unsupported:
        parts.append(f"not reported by this GPU: {', '.join(asked.unsupported)}")
    return "; ".join(parts) or None
