"""AMD's GPUs, by the files of their driver."""

import asyncio
from pathlib import Path

import pytest

from muster.cluster.nodeconnection import GpuUse
from muster.cluster.nodes.gpus import amd
from muster.cluster.nodes.gpus.consumption import GpuState, attribute_use
from muster.cluster.nodes.gpus.device import AMD, Gpu
from muster.cluster.nodes.gpus.finding import Health, Usage


@pytest.fixture
def root(tmp_path):
    """A machine with a CPU, a GPU, one that this process may not look at, and another."""
    nodes = {
        "0": ("", "simd_count 0\ncpu_cores_count 64\n"),
        "2": ("gfx942", "simd_count 1216\ndrm_render_minor 128\nunique_id 11400702157543178317\n"),
        "10": ("gfx942", "simd_count 1216\ndrm_render_minor 136\nunique_id 0\n"),
        "3": ("gfx942", None),
    }
    for number, (name, properties) in nodes.items():
        folder = tmp_path / "sys/class/kfd/kfd/topology/nodes" / number
        folder.mkdir(parents=True)
        (folder / "name").write_text(name + "\n")
        if properties is not None:
            (folder / "properties").write_text(properties)
    device = tmp_path / "sys/class/drm/renderD128/device"
    (device / "ras").mkdir(parents=True)
    (device / "product_name").write_text("AMD Instinct MI300X\n")
    (device / "mem_info_vram_total").write_text("206141652992\n")
    (device / "ras/umc_err_count").write_text("ue: 0\nce: 3\n")
    return tmp_path


def test_they_are_found_in_the_order_of_the_driver(root):
    first, second = amd.discover(root)
    place = str(root / "sys/class/drm/renderD128/device")
    assert first == Gpu(
        AMD, 0, "AMD Instinct MI300X", 206141652992, "GPU-9e376e357264004d", place, "/dev/dri/renderD128"
    )
    assert (second.number, second.model, second.memory, second.uuid) == (1, "gfx942", 0, "")
    assert second.file == "/dev/dri/renderD136"


def test_a_machine_without_the_driver_has_none(tmp_path):
    assert amd.discover(tmp_path) == []


def test_errors_that_could_not_be_corrected_make_it_ill(root):
    first, second = amd.discover(root)
    assert amd.find_problem(first) == ""
    (root / "sys/class/drm/renderD128/device/ras/umc_err_count").write_text("ue: 2\nce: 3\n")
    assert amd.find_problem(first) == "its memory has lost data: 2 errors that could not be corrected"
    assert amd.find_problem(second) == "it is not there any more"


def use(root: Path, busy: str, memory: str, minor: int = 128) -> None:
    """Write what the driver of a GPU reports."""
    device = root / f"sys/class/drm/renderD{minor}/device"
    device.mkdir(parents=True, exist_ok=True)
    (device / "gpu_busy_percent").write_text(busy)
    (device / "mem_info_vram_used").write_text(memory)


def test_the_driver_reports_use_and_memory(root):
    first, second = amd.discover(root)
    assert amd.read_state(first) is None, "a driver without these files reports nothing"
    use(root, "37\n", "12884901888\n")
    use(root, "0\n", "11111\n", 136)
    assert amd.read_state(first) == GpuState(370, 12884901888)
    assert amd.read_state(second) == GpuState(0, 11111)


@pytest.mark.parametrize(
    ("busy", "memory"), [("", "1"), ("1", ""), ("N/A", "1"), ("-1", "1"), ("1", "12 MB"), ("\x00", "1"), ("1.5", "1")]
)
def test_odd_reports_are_no_report(root, busy, memory):
    use(root, busy, memory)
    assert amd.read_state(amd.discover(root)[0]) is None


def test_a_gpu_that_is_reset_reports_nothing(root):
    """While a GPU is reset, reads of its files fail."""
    use(root, "37\n", "1\n")
    busy = root / "sys/class/drm/renderD128/device/gpu_busy_percent"
    busy.unlink()
    busy.mkdir()
    assert amd.read_state(amd.discover(root)[0]) is None


def test_use_counts_for_the_worker_that_has_the_gpu(root):
    use(root, "37\n", "1000\n")
    use(root, "100\n", "2000\n", 136)
    states = asyncio.run(Usage(amd.discover(root), root).read())
    assert states == {"amd-0": GpuState(370, 1000), "amd-1": GpuState(1000, 2000)}
    held = {("pod", "a"): ["amd-0"], ("pod", "b"): []}
    assert attribute_use(states, held, {}) == {("pod", "a"): GpuUse(370, 1000)}


def test_ill_gpus_are_named(root):
    gpus = amd.discover(root)
    (root / "sys/class/drm/renderD128/device/ras/umc_err_count").write_text("ue: 2\nce: 3\n")
    assert asyncio.run(Health(gpus, root).problems()) == {
        "amd-0": "its memory has lost data: 2 errors that could not be corrected",
        "amd-1": "it is not there any more",
    }


@pytest.mark.parametrize("errors", ["", "ce: 3\n", "ue:\n", "ue: 0\n", "nonsense\nue: 0\n"])
def test_a_gpu_without_uncorrected_errors_is_well(root, errors):
    (root / "sys/class/drm/renderD128/device/ras/umc_err_count").write_text(errors)
    assert amd.find_problem(amd.discover(root)[0]) == ""


def test_a_driver_that_says_little_has_gpus_without_properties(tmp_path):
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    for number, properties in {
        "1": "simd_count 304\nunique_id many\nodd line of words\n",
        "x": "simd_count 1\n",
    }.items():
        (nodes / number).mkdir(parents=True)
        (nodes / number / "properties").write_text(properties)
    [gpu] = amd.discover(tmp_path)
    assert (gpu.name, gpu.model, gpu.memory, gpu.uuid) == ("amd-0", "", 0, "")
    assert amd.find_problem(gpu) == "it is not there any more"
    assert amd.read_state(gpu) is None
