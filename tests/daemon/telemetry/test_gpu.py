"""GPU states, with a fake NVML (no real GPU was available), and cases 40 and 41 of the known failures."""

from __future__ import annotations

import pynvml
import pytest

from contracts.records import GpuReading, GpuSample
from daemon.telemetry.gpu import GpuCollector
from daemon.telemetry.reading import UNKNOWN_INDEX
from daemon.telemetry.visible import select
from tests.daemon.telemetry.fake_nvml import GPU_IS_LOST, NOT_SUPPORTED, FakeGpu, FakeNvml

GIB = 1 << 30


def four() -> FakeNvml:
    return FakeNvml([FakeGpu(f"GPU-{letter * 4}-0000") for letter in "abcd"])


def collector(nvml: FakeNvml, **environ: str) -> GpuCollector:
    return GpuCollector(nvml, environ)


def only(sample: GpuSample) -> GpuReading:
    assert sample.state == "ok"
    (reading,) = sample.gpus
    return reading


def test_all_values_of_a_healthy_gpu() -> None:
    sample = collector(FakeNvml([FakeGpu("GPU-aaaa")])).sample(5.0)
    assert sample == GpuSample(
        at=5.0,
        state="ok",
        gpus=[
            GpuReading(
                index=0,
                uuid="GPU-aaaa",
                name="NVIDIA H200",
                utilization_pct=37.0,
                memory_used_bytes=10 * GIB,
                memory_total_bytes=140 * GIB,
                power_w=350.5,
                power_limit_w=700.0,
                temperature_c=54.0,
                processes=2,
                mig=False,
            )
        ],
    )


def test_case_40_memory_not_reported() -> None:
    gpu = FakeGpu("GPU-aaaa", name="NVIDIA GB10", failing={"memory": NOT_SUPPORTED})
    gpus = collector(FakeNvml([gpu]))
    for at in (0.0, 1.0):
        reading = only(gpus.sample(at))
        assert (reading.utilization_pct, reading.temperature_c, reading.state) == (37.0, 54.0, "ok")
        assert (reading.memory_used_bytes, reading.memory_total_bytes) == (None, None)
        assert reading.reason == "not reported by this GPU: memory"
    gpu.failing["memory"] = GPU_IS_LOST  # for 10 s
    for second in range(2, 12):
        reading = only(gpus.sample(float(second)))
        assert (reading.utilization_pct, reading.temperature_c, reading.state) == (37.0, 54.0, "lost")
        assert (reading.memory_used_bytes, reading.memory_total_bytes) == (None, None)
        assert reading.reason is not None
        assert "GPU is lost" in reading.reason
    del gpu.failing["memory"]
    reading = only(gpus.sample(12.0))
    assert (reading.utilization_pct, reading.memory_total_bytes, reading.state) == (37.0, 140 * GIB, "ok")
    assert reading.reason is None


def test_memory_total_of_zero_is_unknown_not_0_of_0() -> None:
    reading = only(collector(FakeNvml([FakeGpu("GPU-aaaa", memory=(0, 0))])).sample(0.0))
    assert (reading.memory_used_bytes, reading.memory_total_bytes) == (None, None)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("GPU-cccc,GPU-aaaa", ["GPU-cccc-0000", "GPU-aaaa-0000"]),
        ("2,-1,0", ["GPU-cccc-0000"]),
        (" 1 , 3 ", ["GPU-bbbb-0000", "GPU-dddd-0000"]),
        ("1,1", ["GPU-bbbb-0000"]),
        ("3,4,0", ["GPU-dddd-0000"]),
        ("GPU-dddd-0000,GPU-zzzz,GPU-aaaa", ["GPU-dddd-0000"]),
        ("", []),
        ("-1", []),
        ("GPU-", []),
        ("NoDevFiles", []),
        (None, ["GPU-aaaa-0000", "GPU-bbbb-0000", "GPU-cccc-0000", "GPU-dddd-0000"]),
    ],
)
def test_case_41_which_gpus_are_shown(visible: str | None, expected: list[str]) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    sample = collector(four(), **environ).sample(0.0)
    assert [gpu.uuid for gpu in sample.gpus] == expected
    assert sample.state == ("ok" if expected else "none")
    assert (sample.reason is None) == bool(expected)


def test_case_41_indices_are_those_of_nvml() -> None:
    sample = collector(four(), CUDA_VISIBLE_DEVICES="GPU-cccc,GPU-aaaa").sample(0.0)
    assert [gpu.index for gpu in sample.gpus] == [2, 0]


def test_case_41_a_mig_slice_that_nvml_does_not_show_is_unknown() -> None:
    reading = only(collector(four(), CUDA_VISIBLE_DEVICES="MIG-1111").sample(0.0))
    assert (reading.index, reading.uuid, reading.state) == (UNKNOWN_INDEX, "MIG-1111", "unknown")
    assert (reading.utilization_pct, reading.memory_total_bytes) == (None, None)
    assert reading.reason is not None
    assert "MIG-1111" in reading.reason


def test_case_41_a_mig_slice_that_nvml_shows_has_its_own_memory() -> None:
    nvml = four()
    nvml.gpus[1].mig = True
    nvml.gpus[1].slices = [
        FakeGpu("MIG-0000", name="NVIDIA H200 MIG 1g.18gb", memory=(1 * GIB, 18 * GIB), mig=True),
        FakeGpu("MIG-1111", name="NVIDIA H200 MIG 3g.71gb", memory=(2 * GIB, 71 * GIB), mig=True),
    ]
    reading = only(collector(nvml, CUDA_VISIBLE_DEVICES="MIG-1111").sample(0.0))
    assert (reading.index, reading.name, reading.state, reading.mig) == (1, "NVIDIA H200 MIG 3g.71gb", "mig", True)
    assert (reading.memory_used_bytes, reading.memory_total_bytes) == (2 * GIB, 71 * GIB)
    assert reading.utilization_pct is None


def test_mig_hides_utilisation_and_says_so() -> None:
    reading = only(collector(FakeNvml([FakeGpu("GPU-aaaa", mig=True)])).sample(0.0))
    assert (reading.state, reading.mig, reading.utilization_pct, reading.processes) == ("mig", True, None, None)
    assert (reading.temperature_c, reading.memory_total_bytes) == (54.0, 140 * GIB)
    assert reading.reason == "MIG is on: the driver hides utilisation and processes"


def test_ambiguous_prefix_names_nothing() -> None:
    uuids = ["GPU-ab00", "GPU-ab11", None]
    assert select("GPU-ab1,GPU-ab", uuids) == [1]
    assert select("GPU-ab", uuids) == []
    assert select("2", uuids) == [2]


def test_indices_among_different_cards_come_with_a_warning_about_cudas_order() -> None:
    nvml = four()
    nvml.gpus[0].name = "NVIDIA T4"
    warned = collector(nvml, CUDA_VISIBLE_DEVICES="0,1").sample(0.0)
    assert warned.reason is not None
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in warned.reason
    for environ in (
        {"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        {"CUDA_VISIBLE_DEVICES": "GPU-aaaa,GPU-bbbb"},
        {},
    ):
        assert GpuCollector(nvml, environ).sample(0.0).reason is None
    assert collector(four(), CUDA_VISIBLE_DEVICES="0,1").sample(0.0).reason is None


@pytest.mark.parametrize(
    ("code", "state", "word"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "none", "no NVIDIA driver library"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "none", "not loaded"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "error", "driver/library version mismatch"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "error", "no permission"),
        (pynvml.NVML_ERROR_UNKNOWN, "error", "unknown error"),
        (pynvml.NVML_ERROR_IN_USE, "error", "NVML"),
    ],
)
def test_driver_states_have_a_reason_and_end_by_themselves(code: int, state: str, word: str) -> None:
    nvml = four()
    nvml.init_error = code
    gpus = collector(nvml)
    for second in range(4):
        sample = gpus.sample(float(second))
        assert (sample.state, sample.gpus) == (state, [])
        assert sample.reason is not None
        assert word in sample.reason
    assert nvml.inits == 3  # at 0 s, 1 s and 3 s
    nvml.init_error = None
    assert gpus.sample(6.0).state == state
    assert gpus.sample(7.0).state == "ok"


def test_retries_are_at_most_a_minute_apart() -> None:
    nvml = four()
    nvml.init_error = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    gpus = collector(nvml)
    starts = []
    for second in range(400):
        before = nvml.inits
        gpus.sample(float(second))
        if nvml.inits > before:
            starts.append(second)
    assert starts == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363]


def test_no_gpu_at_all() -> None:
    nvml = FakeNvml([])
    gpus = collector(nvml)
    assert gpus.sample(0.0).state == "none"
    nvml.gpus = [FakeGpu("GPU-aaaa")]
    assert gpus.sample(2.0).state == "ok"


def test_a_lost_gpu_keeps_its_name_costs_no_other_and_comes_back() -> None:
    nvml = four()
    gpus = collector(nvml, CUDA_VISIBLE_DEVICES="GPU-bbbb,GPU-cccc")
    assert [gpu.state for gpu in gpus.sample(0.0).gpus] == ["ok", "ok"]
    nvml.gpus[1].failing["*"] = GPU_IS_LOST
    for second in range(1, 30):
        lost, other = gpus.sample(float(second)).gpus
        assert (lost.uuid, lost.name, lost.state) == ("GPU-bbbb-0000", "NVIDIA H200", "lost")
        assert (lost.utilization_pct, lost.memory_total_bytes) == (None, None)
        assert (other.state, other.utilization_pct) == ("ok", 37.0)
    assert nvml.inits == 5  # 0 s; then, lost at 1 s: 2, 4, 8, 16 s
    nvml.gpus[1].failing.clear()
    back = [gpus.sample(float(second)).gpus[0].state for second in range(30, 36)]
    assert back[-1] == "ok"
    assert nvml.inits == 6
    gpus.sample(100.0)
    assert nvml.inits == 6


def test_one_value_that_fails_costs_only_itself() -> None:
    failing = {"power": pynvml.NVML_ERROR_UNKNOWN, "processes": pynvml.NVML_ERROR_NO_PERMISSION, "mig": NOT_SUPPORTED}
    reading = only(collector(FakeNvml([FakeGpu("GPU-aaaa", failing=failing)])).sample(0.0))
    assert (reading.state, reading.utilization_pct, reading.power_w, reading.processes) == ("ok", 37.0, None, None)
    assert reading.mig is None
    assert reading.reason is not None
    assert "no permission" in reading.reason


def test_a_gpu_that_tells_nothing_is_unknown() -> None:
    nvml = FakeNvml([FakeGpu("GPU-aaaa", failing={"*": pynvml.NVML_ERROR_UNKNOWN})])
    reading = only(collector(nvml).sample(0.0))
    assert (reading.index, reading.uuid, reading.state) == (0, None, "unknown")
    assert reading.reason is not None


def test_the_real_library_on_this_machine_whatever_it_has() -> None:
    assert GpuCollector(environ={}).sample(0.0).state in ("ok", "none", "error")
