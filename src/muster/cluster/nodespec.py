"""`--nodes KIND[:COUNT][,RESOURCE=QTY]...`: which nodes an embedded cluster has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster.api.ours.gpus import NVIDIA_GPU as GPU
from muster.api.values.quantity import amount

KINDS = ("process", "simulated")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
# One process plays this many; more would be a typing error.
MAX_NODES = 100_000
MAX_GPUS = 1024


class NodeSpecError(ValueError):
    """A `--nodes` value that makes no sense; says which part, and what was expected."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """So many nodes of a kind.

    resources: what each has, as quantities; for a process node, what it offers of what the machine has.
    played_gpus: how many GPUs a process node makes up, instead of those of the machine.
    """

    kind: str = "process"
    count: int = 1
    resources: Mapping[str, str] = field(default_factory=dict)
    played_gpus: int = 0

    def names(self, taken: int = 0) -> list[str]:
        """The nodes' names; `taken` nodes of this kind come before them."""
        stem = "node" if self.kind == "process" else "sim"
        return [f"{stem}-{number}" for number in range(taken, taken + self.count)]


def parse(text: str) -> NodeSpec:
    """Read one value. Raises `NodeSpecError`."""
    head, *parts = text.split(",")
    kind, _, number = head.partition(":")
    if kind not in KINDS:
        raise NodeSpecError(
            f"{text!r}: {kind!r} is no kind of node; expected {' or '.join(KINDS)}{_meant(kind, KINDS)}"
        )
    if number and not (number.isascii() and number.isdigit() and 1 <= int(number) <= MAX_NODES):
        raise NodeSpecError(f"{text!r}: {number!r} is no number of nodes from 1 to {MAX_NODES}")
    resources, played = {}, 0
    for part in parts:
        if part.startswith("gpus="):
            played = _played(text, kind, part.removeprefix("gpus="))
            continue
        name, given, quantity = part.partition("=")
        if not name or not given:
            raise NodeSpecError(f"{text!r}: {part!r} is not RESOURCE=QUANTITY, as in cpu=4")
        try:
            negative = amount(name, quantity) < 0
        except ValueError as error:
            raise NodeSpecError(f"{text!r}: {name}: {error}") from error
        if negative:
            raise NodeSpecError(f"{text!r}: {name}: less than nothing")
        if name not in RESOURCES and "/" not in name and not name.startswith("hugepages-"):
            raise NodeSpecError(
                f"{text!r}: {name!r} is no resource of a node{_meant(name, RESOURCES)}; "
                f"there is {', '.join(RESOURCES)}, and others have a domain, as nvidia.com/gpu"
            )
        if name in resources:
            raise NodeSpecError(f"{text!r}: {name} is given twice")
        resources[name] = quantity
    if played and kind == "simulated":
        return NodeSpec(kind, int(number or 1), {GPU: str(played)} | resources)
    return NodeSpec(kind, int(number or 1), resources, played)


def _played(text: str, kind: str, asked: str) -> int:
    """How many GPUs are to be played. Raises `NodeSpecError`."""
    count, _, how = asked.partition(":")
    if how not in ("", "fake") or (kind == "process" and not how):
        raise NodeSpecError(f"{text!r}: a process node offers the GPUs of its machine; gpus=4:fake plays four instead")
    if not (count.isascii() and count.isdigit() and 1 <= int(count) <= MAX_GPUS):
        raise NodeSpecError(f"{text!r}: {count!r} is no number of GPUs from 1 to {MAX_GPUS}")
    return int(count)


def _meant(word: str, known: Sequence[str]) -> str:
    """What was meant, perhaps, as the end of a sentence."""
    from difflib import get_close_matches

    found = get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {found[0]}?" if found else ""
