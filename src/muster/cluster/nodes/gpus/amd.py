"""AMD's GPUs, by the files of the kernel's driver.

Their numbers are those that ROCm gives them: the order of the driver's nodes, without the CPUs among them and without
those that this process may not look at.
"""

from pathlib import Path

from muster.cluster.nodes.gpus.device import AMD, Gpu

_NODES = "sys/class/kfd/kfd/topology/nodes"
_RENDER = "sys/class/drm/renderD{}/device"
_ERRORS = "ras/umc_err_count"


def discover(root: Path) -> list[Gpu]:
    """Those that there are. `root`: of the file system."""
    folder = root / _NODES
    if not folder.is_dir():
        return []
    nodes = sorted((node for node in folder.iterdir() if node.name.isdigit()), key=lambda node: int(node.name))
    told = [known for node in nodes if (known := _properties(node)).get("simd_count", "0") != "0"]
    return [_gpu(root, number, known) for number, known in enumerate(told)]


def problem(gpu: Gpu) -> str:
    """What is wrong with a GPU; "" if nothing is known to be."""
    place = Path(gpu.place)
    if not place.exists():
        return "it is not there any more"
    lost = dict(line.split(": ", 1) for line in _text(place / _ERRORS).splitlines() if ": " in line).get("ue", "0")
    return f"its memory has lost data: {lost} errors that could not be corrected" if lost not in ("", "0") else ""


def _gpu(root: Path, number: int, known: dict[str, str]) -> Gpu:
    place = root / _RENDER.format(known.get("drm_render_minor", ""))
    memory = _text(place / "mem_info_vram_total")
    identity = known.get("unique_id", "0")
    return Gpu(
        AMD,
        number,
        _text(place / "product_name") or known["name"],
        int(memory) if memory.isdigit() else 0,
        f"GPU-{int(identity):016x}" if identity.isdigit() and identity != "0" else "",
        str(place),
    )


def _properties(node: Path) -> dict[str, str]:
    """What the driver says of one of its nodes, and its name; nothing if this process may not look at it."""
    lines = (line.split() for line in _text(node / "properties").splitlines())
    return {"name": _text(node / "name")} | {words[0]: words[1] for words in lines if len(words) == 2}


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
