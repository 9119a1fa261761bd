"""Find a node's GPUs, and their health.

Separate threads query the drivers, because a failing driver may answer late or never.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from muster.cluster.nodes.gpus import amd, nvidia
from muster.cluster.nodes.gpus.consumption import GpuState
from muster.cluster.nodes.gpus.device import AMD, FAMILIES, NVIDIA, Gpu
from muster.runtime.tasks import in_daemon

T = TypeVar("T")

# The file in the node's directory that lists unhealthy simulated GPUs, one number a line.
PLAYED_ILL = "ill-gpus"
# The file in the node's directory that sets the use of simulated GPUs. A line has a number, a percentage, and bytes.
PLAYED_USE = "gpu-use"
_PLAYED_MODEL, _PLAYED_MEMORY = "Played-GPU", 80 << 30

ANSWER_SECONDS = 10.0
_NO_ANSWER = f"the GPUs' driver has not answered for {ANSWER_SECONDS:g} s"


class NoAnswerError(Exception):
    """A failure of a GPU driver to answer within the time limit."""


async def discover() -> tuple[Gpu, ...]:
    """Return the GPUs of this machine that this process may use by its environment. Raises `NoAnswerError`."""
    return await _run_query(lambda: select_allowed_gpus(list_all_gpus(Path("/")), os.environ))


class _Watcher(Generic[T]):
    """A runner of slow driver queries, each in a thread, at most one at a time.

    A query that the driver never answers occupies its thread for ever. So no second query starts meanwhile.
    """

    def __init__(self, gpus: Sequence[Gpu], state: Path, query: Callable[[Sequence[Gpu], Path], T]) -> None:
        self._gpus, self._state, self._query = gpus, state, query
        self._is_asking = False

    async def ask(self) -> T:
        if self._is_asking:
            raise NoAnswerError(_NO_ANSWER)
        self._is_asking = True
        return await _run_query(self._query_driver)

    def _query_driver(self) -> T:
        try:
            return self._query(self._gpus, self._state)
        finally:
            self._is_asking = False


class Health:
    """A reader of the health of a node's GPUs, from their drivers."""

    def __init__(self, gpus: Sequence[Gpu], state: Path) -> None:
        """Create a reader, which queries the drivers only on request. `state`: the node's directory."""
        self._watcher = _Watcher(gpus, state, find_unhealthy)

    async def problems(self) -> dict[str, str]:
        """Return the problems of unhealthy GPUs, by GPU name. Raises `NoAnswerError`."""
        return await self._watcher.ask()


class Usage:
    """A reader of the use of a node's GPUs, from their drivers."""

    def __init__(self, gpus: Sequence[Gpu], state: Path) -> None:
        """Create a reader, which queries the drivers only on request. `state`: the node's directory."""
        self._watcher = _Watcher(gpus, state, read_states)

    async def read(self) -> dict[str, GpuState]:
        """Return the drivers' reports on the GPUs, by GPU name. Raises `NoAnswerError`."""
        return await self._watcher.ask()


def list_all_gpus(root: Path) -> list[Gpu]:
    """Return all GPUs of the machine, whatever the environment allows. root: the root of the machine's file system."""
    return [*nvidia.discover(root), *amd.discover(root)]


def simulate_gpus(count: int) -> tuple[Gpu, ...]:
    """Return this number of simulated GPUs."""
    return tuple(Gpu(NVIDIA, number, _PLAYED_MODEL, _PLAYED_MEMORY, played=True) for number in range(count))


def select_allowed_gpus(gpus: Iterable[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return the GPUs that the environment variables allow this process to use, as for any GPU program.

    A variable lists numbers or prefixes of UUIDs. The first entry that does not match exactly one GPU ends the list.
    """
    remaining = list(gpus)
    for family in FAMILIES:
        if family.variable in environ:
            mine = [gpu for gpu in remaining if gpu.family == family]
            named = _match_words(mine, environ[family.variable])
            remaining = [gpu for gpu in remaining if gpu.family != family or gpu in named]
    return tuple(remaining)


def choose_offered(gpus: Iterable[Gpu], offered: Mapping[str, int]) -> tuple[Gpu, ...]:
    """Return the GPUs that a node offers: of each resource, the first `offered[resource]` GPUs.

    GPUs of a resource that is not in `offered` are all returned.
    """
    remaining = dict(offered)
    chosen = []
    for gpu in gpus:
        resource = gpu.family.resource
        if remaining.get(resource, 1) > 0:
            chosen.append(gpu)
        if resource in remaining:
            remaining[resource] -= 1
    return tuple(chosen)


def _match_words(gpus: Sequence[Gpu], words: str) -> list[Gpu]:
    named: list[Gpu] = []
    for word in words.split(","):
        matches = [
            gpu
            for gpu in gpus
            if word.strip() and (word.strip() == str(gpu.number) or _has_uuid_prefix(gpu, word.strip()))
        ]
        if len(matches) != 1:
            break
        named += matches
    return named


def _has_uuid_prefix(gpu: Gpu, word: str) -> bool:
    return len(word) > len("GPU-") and gpu.uuid.startswith(word)


def find_unhealthy(gpus: Sequence[Gpu], state: Path) -> dict[str, str]:
    """Return what is wrong with each unhealthy GPU, by GPU name. A file lists the unhealthy simulated GPUs.

    state: the directory that contains the file.
    """
    played_ill = _read_played_ill(state) if any(gpu.played for gpu in gpus) else frozenset()
    problems = nvidia.find_problems([gpu for gpu in gpus if gpu.family == NVIDIA and not gpu.played])
    for gpu in gpus:
        if gpu.played:
            problems[gpu.name] = f"it stands in {PLAYED_ILL}" if gpu.name in played_ill else ""
        elif gpu.family == AMD:
            problems[gpu.name] = amd.find_problem(gpu)
    return {name: trouble for name, trouble in problems.items() if trouble}


def read_states(gpus: Sequence[Gpu], state: Path) -> dict[str, GpuState]:
    """Return the drivers' reports on the GPUs, by GPU name; omit GPUs without a report.

    state: the directory of the file with the use of simulated GPUs.
    """
    states = nvidia.read_states([gpu for gpu in gpus if gpu.family == NVIDIA and not gpu.played])
    states |= {gpu.name: known for gpu in gpus if gpu.family == AMD and (known := amd.read_state(gpu)) is not None}
    return states | (_read_played_use(state) if any(gpu.played for gpu in gpus) else {})


def _read_played_use(state: Path) -> dict[str, GpuState]:
    try:
        lines = [line.split() for line in (state / PLAYED_USE).read_text(errors="replace").splitlines()]
    except FileNotFoundError:
        return {}
    return {name: GpuState(int(percent) * 10, int(memory)) for name, percent, memory in lines}


def _read_played_ill(state: Path) -> frozenset[str]:
    try:
        return frozenset((state / PLAYED_ILL).read_text(errors="replace").split())
    except FileNotFoundError:
        return frozenset()


async def _run_query(work: Callable[[], T]) -> T:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await in_daemon(work, "gpus")
    except TimeoutError:
        raise NoAnswerError(_NO_ANSWER) from None
