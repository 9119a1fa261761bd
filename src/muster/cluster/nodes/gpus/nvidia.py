"""Find NVIDIA's GPUs and their problems through the driver's library.

Without the library, read the driver's files, which report neither memory nor health.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from muster.cluster.nodes.gpus.consumption import GpuProcess, GpuState
from muster.cluster.nodes.gpus.device import NVIDIA, Gpu

T = TypeVar("T")

# A machine with a driver has one of these files; the last exists on Windows, within WSL.
_SIGNS = ("proc/driver/nvidia", "dev/nvidiactl", "dev/dxg")
_FILES = "proc/driver/nvidia/gpus"


def discover(root: Path) -> list[Gpu]:
    """Return the GPUs in the order of the PCI bus. root: the root of the file system."""
    if not any((root / sign).exists() for sign in _SIGNS):
        return []
    with _open_library() as nvml:
        if nvml is None:
            return _find_by_files(root / _FILES)
        return [_read_gpu(nvml, number) for number in range(nvml.nvmlDeviceGetCount())]


def find_problems(gpus: Sequence[Gpu]) -> dict[str, str]:
    """Return the problem of each GPU, by GPU name; "" if no problem is known."""
    if not gpus:
        return {}
    with _open_library() as nvml:
        return {gpu.name: _find_problem(nvml, gpu.number) if nvml is not None else "" for gpu in gpus}


def read_states(gpus: Sequence[Gpu]) -> dict[str, GpuState]:
    """Return the driver's reports on the GPUs, by GPU name; omit GPUs that cannot be read.

    Without the driver's library, return no reports.
    """
    if not gpus:
        return {}
    with _open_library() as nvml:
        states = {gpu.name: _read_state(nvml, gpu.number) for gpu in gpus} if nvml is not None else {}
    return {name: state for name, state in states.items() if state is not None}


def _read_state(nvml: Any, number: int) -> GpuState | None:
    handle, _ = _query(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(number))
    if handle is None:
        return None
    rates, _ = _query(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
    memory, _ = _query(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    processes, _ = _query(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    if rates is None and memory is None:
        return None
    return GpuState(
        rates.gpu * 10 if rates is not None else 0,
        memory.used if memory is not None else 0,
        [GpuProcess(one.pid, one.usedGpuMemory) for one in processes] if processes is not None else None,
    )


def _find_problem(nvml: Any, number: int) -> str:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
    except nvml.NVMLError as error:
        return f"the driver does not find it: {error}"
    _, trouble = _query(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    if trouble:
        return f"the driver cannot use it: {trouble}"
    rows, _ = _query(nvml, lambda: nvml.nvmlDeviceGetRemappedRows(handle))
    return "its memory has failed for good: no spare rows are left" if rows is not None and rows[3] else ""


@contextmanager
def _open_library() -> Iterator[Any]:
    """Yield the driver's library; None if it is missing or does not initialize."""
    import pynvml  # the import takes a while

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _read_gpu(nvml: Any, number: int) -> Gpu:
    """Return one GPU. A GPU that has fallen off the bus still counts, and is reported as unhealthy later."""
    handle, trouble = _query(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(number))
    if trouble:
        return Gpu(NVIDIA, number)
    model, _ = _query(nvml, lambda: nvml.nvmlDeviceGetName(handle))
    uuid, _ = _query(nvml, lambda: nvml.nvmlDeviceGetUUID(handle))
    memory, _ = _query(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total)
    minor, _ = _query(nvml, lambda: nvml.nvmlDeviceGetMinorNumber(handle))
    file = "" if minor is None else f"/dev/nvidia{minor}"
    return Gpu(NVIDIA, number, model or "", memory or 0, uuid or "", file=file)


def _query(nvml: Any, ask: Callable[[], T]) -> tuple[T | None, str]:
    """Return the library's answer and "", or None and the reason why there is no answer.

    If the GPU does not support the query, return None and "".
    """
    try:
        return ask(), ""
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return None, ""
    except nvml.NVMLError as error:
        return None, str(error)


def _find_by_files(folder: Path) -> list[Gpu]:
    if not folder.is_dir():
        return []
    gpus = []
    for number, place in enumerate(sorted(folder.iterdir())):
        information = dict(_read_lines(place / "information"))
        minor = information.get("Device Minor", "")
        gpus.append(
            Gpu(
                NVIDIA,
                number,
                information.get("Model", ""),
                0,
                information.get("GPU UUID", ""),
                str(place),
                f"/dev/nvidia{minor}" if minor else "",
            )
        )
    return gpus


def _read_lines(file: Path) -> Iterator[tuple[str, str]]:
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        name, _, value = line.partition(":")
        yield name.strip(), value.strip()
