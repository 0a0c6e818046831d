"""A fake NVML. No real GPU was available when this was written: what it does follows NVML's documentation and reports.

It raises the real exception classes of nvidia-ml-py, which need no driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml


def error(code: int) -> Exception:
    raised: Exception = pynvml.NVMLError(code)
    return raised


NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
GPU_IS_LOST = pynvml.NVML_ERROR_GPU_IS_LOST


@dataclass
class FakeGpu:
    """One GPU, or one MIG slice. ``failing`` holds the error code that a query raises; "*" is every query."""

    uuid: str
    name: str = "NVIDIA H200"
    utilization: int = 37
    temperature: int = 54
    memory: tuple[int, int] = (10 << 30, 140 << 30)
    failing: dict[str, int] = field(default_factory=dict)
    mig: bool = False
    slices: list[FakeGpu] = field(default_factory=list)


@dataclass
class FakeNvml:
    """What `daemon.telemetry.nvml.Nvml` declares, over a list of GPUs in PCI order."""

    gpus: list[FakeGpu]
    init_error: int | None = None
    inits: int = 0
    open: bool = False

    def nvmlInit(self) -> None:
        self.inits += 1
        if self.init_error is not None:
            raise error(self.init_error)
        self.open = True

    def nvmlShutdown(self) -> None:
        if not self.open:
            raise error(pynvml.NVML_ERROR_UNINITIALIZED)
        self.open = False

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int, /) -> FakeGpu:
        self._check(self.gpus[index], "handle")
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, handle: FakeGpu, /) -> str:
        self._check(handle, "uuid")
        return handle.uuid

    def nvmlDeviceGetName(self, handle: FakeGpu, /) -> str:
        self._check(handle, "name")
        return handle.name

    def nvmlDeviceGetUtilizationRates(self, handle: FakeGpu, /) -> Any:
        self._check(handle, "utilization", hidden=handle.mig)
        return SimpleNamespace(gpu=handle.utilization, memory=1)

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu, /) -> Any:
        self._check(handle, "memory")
        return SimpleNamespace(used=handle.memory[0], total=handle.memory[1])

    def nvmlDeviceGetPowerUsage(self, handle: FakeGpu, /) -> int:
        self._check(handle, "power")
        return 350_500

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: FakeGpu, /) -> int:
        self._check(handle, "limit")
        return 700_000

    def nvmlDeviceGetTemperature(self, handle: FakeGpu, sensor: int, /) -> int:
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        self._check(handle, "temperature")
        return handle.temperature

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeGpu, /) -> list[Any]:
        self._check(handle, "processes", hidden=handle.mig)
        return [SimpleNamespace(pid=1), SimpleNamespace(pid=2)]

    def nvmlDeviceGetMigMode(self, handle: FakeGpu, /) -> list[int]:
        self._check(handle, "mig")
        return [int(handle.mig), int(handle.mig)]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: FakeGpu, /) -> int:
        self._check(handle, "mig", hidden=not handle.mig)
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: FakeGpu, index: int, /) -> FakeGpu:
        if index >= len(handle.slices):
            raise error(pynvml.NVML_ERROR_NOT_FOUND)
        return handle.slices[index]

    def _check(self, gpu: FakeGpu, what: str, *, hidden: bool = False) -> None:
        if not self.open:
            raise error(pynvml.NVML_ERROR_UNINITIALIZED)
        code = gpu.failing.get("*", gpu.failing.get(what))
        if code is not None:
            raise error(code)
        if hidden:
            raise error(NOT_SUPPORTED)
