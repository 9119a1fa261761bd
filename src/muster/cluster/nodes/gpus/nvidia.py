"""NVIDIA's GPUs, by the driver's library; where that is missing, by the driver's files, without memory and health."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from muster.cluster.nodes.gpus.device import NVIDIA, Gpu

T = TypeVar("T")

# One of these is there if a driver is; the last is that of Windows, below WSL.
_SIGNS = ("proc/driver/nvidia", "dev/nvidiactl", "dev/dxg")
_FILES = "proc/driver/nvidia/gpus"


def discover(root: Path) -> list[Gpu]:
    """Those that there are, in the order of the PCI bus. `root`: of the file system."""
    if not any((root / sign).exists() for sign in _SIGNS):
        return []
    with _library() as nvml:
        if nvml is None:
            return _by_files(root / _FILES)
        return [_gpu(nvml, number) for number in range(nvml.nvmlDeviceGetCount())]


def problems(gpus: Sequence[Gpu]) -> dict[str, str]:
    """What is wrong with GPUs, by name; "" if nothing is known to be."""
    if not gpus:
        return {}
    with _library() as nvml:
        return {gpu.name: _problem(nvml, gpu.number) if nvml is not None else "" for gpu in gpus}


def _problem(nvml: Any, number: int) -> str:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
    except nvml.NVMLError as error:
        return f"the driver does not find it: {error}"
    _, trouble = _told(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    if trouble:
        return f"the driver cannot use it: {trouble}"
    rows, _ = _told(nvml, lambda: nvml.nvmlDeviceGetRemappedRows(handle))
    return "its memory has failed for good: no spare rows are left" if rows is not None and rows[3] else ""


@contextmanager
def _library() -> Iterator[Any]:
    """The driver's library; None if it is not there, or does not begin."""
    import pynvml  # it takes a while to load

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, number: int) -> Gpu:
    """One that has fallen off the bus is there all the same, and found to be ill later."""
    handle, trouble = _told(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(number))
    if trouble:
        return Gpu(NVIDIA, number)
    model, _ = _told(nvml, lambda: nvml.nvmlDeviceGetName(handle))
    uuid, _ = _told(nvml, lambda: nvml.nvmlDeviceGetUUID(handle))
    memory, _ = _told(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total)
    return Gpu(NVIDIA, number, model or "", memory or 0, uuid or "")


def _told(nvml: Any, ask: Callable[[], T]) -> tuple[T | None, str]:
    """What the library answers, or why it does not; a question that a GPU does not know is no trouble."""
    try:
        return ask(), ""
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return None, ""
    except nvml.NVMLError as error:
        return None, str(error)


def _by_files(folder: Path) -> list[Gpu]:
    if not folder.is_dir():
        return []
    found = []
    for number, place in enumerate(sorted(folder.iterdir())):
        told = dict(_lines(place / "information"))
        found.append(Gpu(NVIDIA, number, told.get("Model", ""), 0, told.get("GPU UUID", ""), str(place)))
    return found


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        name, _, value = line.partition(":")
        yield name.strip(), value.strip()
