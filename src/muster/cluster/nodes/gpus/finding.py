"""Which GPUs a node has, and how they are. A thread of its own asks: a driver in trouble answers late or never."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from muster.cluster.nodes.gpus import amd, nvidia
from muster.cluster.nodes.gpus.device import AMD, FAMILIES, NVIDIA, Gpu
from muster.runtime.tasks import in_daemon

T = TypeVar("T")

# Played GPUs that are ill, by number, in a file of this name in the node's directory: one line each.
PLAYED_ILL = "ill-gpus"
_PLAYED_MODEL, _PLAYED_MEMORY = "Played-GPU", 80 << 30

ANSWER_SECONDS = 10.0
_NO_ANSWER = f"the GPUs' driver has not answered for {ANSWER_SECONDS:g} s"


class NoAnswerError(Exception):
    """The drivers do not answer."""


async def discover() -> tuple[Gpu, ...]:
    """Those of this machine that its user lets us have. Raises `NoAnswerError`."""
    return await _asked(lambda: allowed(there(Path("/")), os.environ))


class Health:
    """How the GPUs of a node are. While a question has no answer, no other is asked: each would hold a thread."""

    def __init__(self, gpus: Sequence[Gpu], state: Path) -> None:
        """`state`: the node's directory."""
        self._gpus, self._state = gpus, state
        self._asked = False

    async def problems(self) -> dict[str, str]:
        """What is wrong with those that are ill, by name. Raises `NoAnswerError`."""
        if self._asked:
            raise NoAnswerError(_NO_ANSWER)
        self._asked = True
        return await _asked(self._ask)

    def _ask(self) -> dict[str, str]:
        try:
            return ill(self._gpus, self._state)
        finally:
            self._asked = False


def there(root: Path) -> list[Gpu]:
    """All of a machine, whose file system begins at `root`."""
    return [*nvidia.discover(root), *amd.discover(root)]


def played(count: int) -> tuple[Gpu, ...]:
    """So many that are made up."""
    return tuple(Gpu(NVIDIA, number, _PLAYED_MODEL, _PLAYED_MEMORY, played=True) for number in range(count))


def allowed(gpus: Iterable[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Those that the variables of this process leave to it, as its own programs would see them.

    A list names numbers or beginnings of UUIDs, and ends at the first that there is not.
    """
    found = list(gpus)
    for family in FAMILIES:
        if family.variable in environ:
            mine = [gpu for gpu in found if gpu.family == family]
            left = _named(mine, environ[family.variable])
            found = [gpu for gpu in found if gpu.family != family or gpu in left]
    return tuple(found)


def first_of(gpus: Iterable[Gpu], offered: Mapping[str, int]) -> tuple[Gpu, ...]:
    """Of each resource the first so many, where it is said how many are offered."""
    left = dict(offered)
    found = []
    for gpu in gpus:
        resource = gpu.family.resource
        if left.get(resource, 1) > 0:
            found.append(gpu)
        if resource in left:
            left[resource] -= 1
    return tuple(found)


def _named(gpus: Sequence[Gpu], words: str) -> list[Gpu]:
    named: list[Gpu] = []
    for word in words.split(","):
        fit = [gpu for gpu in gpus if word.strip() and (word.strip() == str(gpu.number) or _begins(gpu, word.strip()))]
        if len(fit) != 1:
            break
        named += fit
    return named


def _begins(gpu: Gpu, word: str) -> bool:
    return len(word) > len("GPU-") and gpu.uuid.startswith(word)


def ill(gpus: Sequence[Gpu], state: Path) -> dict[str, str]:
    """What is wrong with those that are ill, by name."""
    made_up = _played_ill(state) if any(gpu.played for gpu in gpus) else frozenset()
    found = nvidia.problems([gpu for gpu in gpus if gpu.family == NVIDIA and not gpu.played])
    for gpu in gpus:
        if gpu.played:
            found[gpu.name] = f"it stands in {PLAYED_ILL}" if gpu.name in made_up else ""
        elif gpu.family == AMD:
            found[gpu.name] = amd.problem(gpu)
    return {name: trouble for name, trouble in found.items() if trouble}


def _played_ill(state: Path) -> frozenset[str]:
    try:
        return frozenset((state / PLAYED_ILL).read_text(errors="replace").split())
    except FileNotFoundError:
        return frozenset()


async def _asked(work: Callable[[], T]) -> T:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await in_daemon(work, "gpus")
    except TimeoutError:
        raise NoAnswerError(_NO_ANSWER) from None
