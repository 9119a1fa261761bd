"""AMD's GPUs, by the files of their driver."""

import pytest

from muster.cluster.nodes.gpus import amd
from muster.cluster.nodes.gpus.device import AMD, Gpu


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
    assert amd.problem(first) == ""
    (root / "sys/class/drm/renderD128/device/ras/umc_err_count").write_text("ue: 2\nce: 3\n")
    assert amd.problem(first) == "its memory has lost data: 2 errors that could not be corrected"
    assert amd.problem(second) == "it is not there any more"
