"""Who has which GPU."""

import pytest

from muster.api.ours.gpus import GPUS_ANNOTATION, parse_gpus
from muster.cluster.nodes.gpus.device import AMD, NVIDIA, Gpu
from muster.cluster.nodes.gpus.holding import Gpus, NoGpusError

TWO = (Gpu(NVIDIA, 0, "NVIDIA H200", 1 << 30), Gpu(NVIDIA, 1, "NVIDIA H200", 1 << 30))
MIXED = (*TWO, Gpu(AMD, 0, "MI300X"))


def test_a_gpu_belongs_to_one_container_until_its_pod_ends():
    gpus = Gpus(TWO)
    assert gpus.take("a", {"main": {"nvidia.com/gpu": 1}}) == {"main": ("0",)}
    assert gpus.take("a", {"main": {"nvidia.com/gpu": 1}}) == {"main": ("0",)}, "asked again, it is the same"
    assert gpus.take("b", {"main": {"nvidia.com/gpu": 1}}) == {"main": ("1",)}
    with pytest.raises(NoGpusError, match=r"unavailable for nvidia.com/gpu. Requested: 1, Available: 0,"):
        gpus.take("c", {"main": {"nvidia.com/gpu": 1}})
    gpus.release("a")
    assert gpus.take("c", {"main": {"nvidia.com/gpu": 1}}) == {"main": ("0",)}


def test_a_pod_gets_all_that_it_asks_for_or_nothing():
    gpus = Gpus(TWO)
    with pytest.raises(NoGpusError, match=r"Requested: 2, Available: 1,"):
        gpus.take("a", {"one": {"nvidia.com/gpu": 1}, "two": {"nvidia.com/gpu": 2}})
    assert gpus.free() == ["0", "1"]
    assert gpus.take("a", {"one": {"nvidia.com/gpu": 1}, "two": {"nvidia.com/gpu": 1}}) == {
        "one": ("0",),
        "two": ("1",),
    }


def test_programs_are_told_by_the_variables_of_the_makers():
    gpus = Gpus(MIXED)
    gpus.take("a", {"main": {"nvidia.com/gpu": 2}, "other": {"amd.com/gpu": 1}})
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert gpus.variables("a", "main") == {"CUDA_VISIBLE_DEVICES": "0,1", "ROCR_VISIBLE_DEVICES": ""} | order
    assert gpus.variables("a", "other") == {"CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "0"}
    assert gpus.variables("a", "none") == {"CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}
    assert Gpus(()).variables("a", "main") == {}


def test_the_device_files_of_others_are_to_be_hidden(tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidia12", "nvidiactl", "nvidia-uvm", "null", "dri/renderD128", "dri/card0"):
        (tmp_path / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "dev" / name).touch()
    gpus = Gpus((Gpu(NVIDIA, 0, file="/dev/nvidia1"), Gpu(NVIDIA, 1, file="/dev/nvidia0")))
    gpus.take("a", {"main": {"nvidia.com/gpu": 1}})
    others = ["/dev/dri/renderD128", "/dev/nvidia0", "/dev/nvidia12"]
    assert gpus.hidden_files("a", "main", tmp_path) == others
    assert gpus.hidden_files("a", "other", tmp_path) == sorted([*others, "/dev/nvidia1"])


def test_what_a_restored_pod_has_is_nobody_elses():
    gpus = Gpus(MIXED)
    gpus.restore("a", {"main": ["amd-0", "1"]})
    assert gpus.free() == ["0"]
    assert [gpu.model for gpu in gpus.of("a", "main")] == ["MI300X", "NVIDIA H200"]


def test_an_ill_gpu_goes_to_no_pod_and_who_has_it_is_told():
    gpus = Gpus(TWO)
    gpus.take("a", {"main": {"nvidia.com/gpu": 1}})
    gpus.ill = {"0": "it has fallen off the bus"}
    [status] = gpus.health("a", "main")
    assert [(one.resource_id, one.health) for one in status.resources] == [("0", "Unhealthy")]
    gpus.release("a")
    assert gpus.free() == ["1"]
    assert gpus.count_unhealthy() == {"nvidia.com/gpu": 1}
    assert gpus.problem() == "GPU 0: it has fallen off the bus"
    assert [(one.name, one.ill) for one in parse_gpus(gpus.annotations()[GPUS_ANNOTATION])] == [
        ("0", True),
        ("1", False),
    ]


@pytest.mark.parametrize(
    ("devices", "labels"),
    [
        ((), {}),
        (TWO, {"nvidia.com/gpu.product": "NVIDIA-H200"}),
        (MIXED, {"nvidia.com/gpu.product": "NVIDIA-H200", "amd.com/gpu.product-name": "MI300X"}),
        ((*TWO, Gpu(NVIDIA, 2, "NVIDIA A100")), {}),
        ((Gpu(NVIDIA, 0, "  \x1b[31m(odd)\n"),), {"nvidia.com/gpu.product": "31m-odd"}),
        ((Gpu(NVIDIA, 0, "x" * 62 + "--y"),), {"nvidia.com/gpu.product": "x" * 62}),
        ((Gpu(NVIDIA, 0),), {}),
    ],
)
def test_a_node_says_which_model_it_has(devices, labels):
    assert Gpus(devices).labels() == labels


def test_a_node_tells_of_its_gpus():
    [text] = Gpus(MIXED).annotations().values()
    assert [(one.name, one.model, one.memory) for one in parse_gpus(text)] == [
        ("0", "NVIDIA H200", 1 << 30),
        ("1", "NVIDIA H200", 1 << 30),
        ("amd-0", "MI300X", 0),
    ]
    assert Gpus(()).annotations() == {}
    assert parse_gpus("{") == parse_gpus("") == parse_gpus('[{"name": 1}]') == ()
