"""Find AMD's GPUs and their problems in the files of the kernel's driver.

GPUs have ROCm's numbers. These follow the order of the driver's nodes, without CPUs and without nodes that this process
may not read.
"""

from pathlib import Path

from muster.cluster.nodes.gpus.consumption import GpuState
from muster.cluster.nodes.gpus.device import AMD, Gpu

_NODES = "sys/class/kfd/kfd/topology/nodes"
_RENDER = "sys/class/drm/renderD{}/device"
_ERRORS = "ras/umc_err_count"


def discover(root: Path) -> list[Gpu]:
    """Return the GPUs of the machine whose file system begins at `root`."""
    folder = root / _NODES
    if not folder.is_dir():
        return []
    nodes = sorted((node for node in folder.iterdir() if node.name.isdigit()), key=lambda node: int(node.name))
    properties = [
        node_properties for node in nodes if (node_properties := _read_properties(node)).get("simd_count", "0") != "0"
    ]
    return [_read_gpu(root, number, node_properties) for number, node_properties in enumerate(properties)]


def find_problem(gpu: Gpu) -> str:
    """Return what is wrong with a GPU, by the driver's files; "" if no problem is known."""
    place = Path(gpu.place)
    if not place.exists():
        return "it is not there any more"
    uncorrected = dict(line.split(": ", 1) for line in _read_text(place / _ERRORS).splitlines() if ": " in line).get(
        "ue", "0"
    )
    return (
        f"its memory has lost data: {uncorrected} errors that could not be corrected"
        if uncorrected not in ("", "0")
        else ""
    )


def read_state(gpu: Gpu) -> GpuState | None:
    """Return the driver's report on a GPU, without its processes; None if the driver reports nothing."""
    busy = _read_text(Path(gpu.place, "gpu_busy_percent"))
    memory = _read_text(Path(gpu.place, "mem_info_vram_used"))
    return GpuState(int(busy) * 10, int(memory)) if busy.isdigit() and memory.isdigit() else None


def _read_gpu(root: Path, number: int, properties: dict[str, str]) -> Gpu:
    minor = properties.get("drm_render_minor", "")
    place = root / _RENDER.format(minor)
    memory = _read_text(place / "mem_info_vram_total")
    identity = properties.get("unique_id", "0")
    return Gpu(
        AMD,
        number,
        _read_text(place / "product_name") or properties["name"],
        int(memory) if memory.isdigit() else 0,
        f"GPU-{int(identity):016x}" if identity.isdigit() and identity != "0" else "",
        str(place),
        f"/dev/dri/renderD{minor}" if minor else "",
    )


def _read_properties(node: Path) -> dict[str, str]:
    """Return the name and the properties of one of the driver's nodes.

    Return only the name if this process may not read the properties.
    """
    lines = (line.split() for line in _read_text(node / "properties").splitlines())
    return {"name": _read_text(node / "name")} | {words[0]: words[1] for words in lines if len(words) == 2}


def _read_text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
