"""The part of NVML that is used, and what its errors mean to a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import pynvml

Error: Final[type[Exception]] = pynvml.NVMLError
NotSupported: Final[type[Exception]] = pynvml.NVMLError_NotSupported

TEMPERATURE_GPU: Final[int] = pynvml.NVML_TEMPERATURE_GPU

ABSENT: Final = frozenset({pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED})
"""Errors that mean that this machine has no GPU to speak of."""
LOST: Final = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})
STALE: Final = LOST | {
    pynvml.NVML_ERROR_UNINITIALIZED,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    pynvml.NVML_ERROR_UNKNOWN,
}
"""Errors after which handles are worth nothing: NVML has to be initialised again."""

_ADVICE: Final[dict[int, str]] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "no NVIDIA driver library (libnvidia-ml.so.1): no GPU here, or the container was started without GPUs"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded: no GPU here, or see dmesg",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "driver/library version mismatch: the driver was updated under a running system; reboot, or reload its modules"
    ),
    pynvml.NVML_ERROR_GPU_IS_LOST: "GPU is lost: it fell off the bus; see dmesg for its Xid, then reset it or reboot",
    pynvml.NVML_ERROR_RESET_REQUIRED: "the GPU needs a reset; see dmesg for its Xid",
    pynvml.NVML_ERROR_NO_PERMISSION: "no permission to ask the NVIDIA driver",
    pynvml.NVML_ERROR_UNKNOWN: "NVML: unknown error (in a container: its access to the GPUs may have been revoked)",
}


def code(error: Exception) -> int | None:
    """Return the NVML error code of an NVML error."""
    value = getattr(error, "value", None)
    return value if isinstance(value, int) else None


def explain(error: Exception) -> str:
    """Return what an NVML error means, and what to do where there is something to do."""
    return _ADVICE.get(code(error) or 0, f"NVML: {error}")


class Nvml(Protocol):
    """What `pynvml` offers, as far as it is called. Each call may raise `Error`."""

    def nvmlInit(self) -> None:
        """Load the driver's library and connect."""

    def nvmlShutdown(self) -> None:
        """Undo one nvmlInit."""

    def nvmlDeviceGetCount(self) -> int:
        """Return the number of GPUs."""

    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> Any:
        """Return a GPU by its place in PCI order."""

    def nvmlDeviceGetUUID(self, handle: Any, /) -> str:
        """Return ``GPU-...``, or ``MIG-...`` for a slice."""

    def nvmlDeviceGetName(self, handle: Any, /) -> str:
        """Return the product name."""

    def nvmlDeviceGetUtilizationRates(self, handle: Any, /) -> Any:
        """Return an object with ``gpu``, percent."""

    def nvmlDeviceGetMemoryInfo(self, handle: Any, /) -> Any:
        """Return an object with ``used`` and ``total``, bytes."""

    def nvmlDeviceGetPowerUsage(self, handle: Any, /) -> int:
        """Return milliwatts."""

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any, /) -> int:
        """Return milliwatts."""

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int, /) -> int:
        """Return degrees Celsius."""

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any, /) -> Sequence[Any]:
        """Return one object per process."""

    def nvmlDeviceGetMigMode(self, handle: Any, /) -> Sequence[int]:
        """Return (current, pending), 1 for on."""

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, /) -> int:
        """Return how many slices the GPU can have."""

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: int, /) -> Any:
        """Return a slice; raises where there is none at that place."""
