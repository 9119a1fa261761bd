"""Parse `--nodes KIND[:COUNT][,RESOURCE=QTY]...[,device/DRIVER=COUNT]...`: the nodes of an embedded cluster."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from muster.api.ours.gpus import NVIDIA_GPU as GPU
from muster.api.validation import names
from muster.api.values.quantity import advise_notation, parse_amount

KINDS = ("process", "simulated")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
# The maximum number of nodes that one process simulates; a larger number is probably a typing error.
MAX_NODES = 100_000
MAX_GPUS = 1024
# Kubernetes' limit for a ResourceSlice; a simulated node publishes one for each driver.
MAX_DEVICES = 128
_DEVICES = "device/"


class NodeSpecError(ValueError):
    """An invalid value of `--nodes`. The message says which part is invalid, and what was expected."""


class NodeSpec(Struct, frozen=True):
    """A number of nodes of one kind, as `--nodes` describes them.

    resources: the quantities that each node offers; empty for the machine's.
    played_gpus: how many GPUs a process node simulates instead of offering the machine's.
    devices: how many devices each simulated node has for resource claims, by driver.
    """

    kind: str = "process"
    count: int = 1
    resources: Mapping[str, str] = field(default_factory=dict)
    played_gpus: int = 0
    devices: Mapping[str, int] = field(default_factory=dict)

    def names(self, taken: int = 0) -> list[str]:
        """Return the names of the nodes.

        taken: how many nodes of the same kind have names already; the numbers continue after them.
        """
        stem = "node" if self.kind == "process" else "sim"
        return [f"{stem}-{number}" for number in range(taken, taken + self.count)]


def parse(text: str) -> NodeSpec:
    """Parse one value of `--nodes`, such as `process:2,cpu=4`. Raises `NodeSpecError`."""
    head, *parts = text.split(",")
    kind, _, number = head.partition(":")
    if kind not in KINDS:
        raise NodeSpecError(
            f"{text!r}: {kind!r} is not a kind of node; expected {' or '.join(KINDS)}{_suggest(kind, KINDS)}"
        )
    if number and not (number.isascii() and number.isdigit() and 1 <= int(number) <= MAX_NODES):
        raise NodeSpecError(f"{text!r}: {number!r} is not a number of nodes from 1 to {MAX_NODES}")
    resources, played = {}, 0
    devices: dict[str, int] = {}
    for part in parts:
        if part.startswith(_DEVICES):
            devices |= _parse_devices(text, kind, part.removeprefix(_DEVICES))
            continue
        if part.startswith("gpus="):
            played = _parse_played(text, kind, part.removeprefix("gpus="))
            continue
        name, equals, quantity = part.partition("=")
        if not name or not equals:
            raise NodeSpecError(f"{text!r}: {part!r} is not RESOURCE=QUANTITY, as in cpu=4")
        try:
            negative = parse_amount(name, quantity) < 0
        except ValueError:
            raise NodeSpecError(f"{text!r}: {name}: {quantity!r} is no quantity; {advise_notation(name)}") from None
        if negative:
            raise NodeSpecError(f"{text!r}: {name}: less than nothing")
        if name not in RESOURCES and "/" not in name and not name.startswith("hugepages-"):
            raise NodeSpecError(
                f"{text!r}: {name!r} is not a resource of a node{_suggest(name, RESOURCES)}; "
                f"there is {', '.join(RESOURCES)}, and others have a domain, as nvidia.com/gpu"
            )
        if name in resources:
            raise NodeSpecError(f"{text!r}: {name} is given twice")
        resources[name] = quantity
    if played and kind == "simulated":
        return NodeSpec(kind, int(number or 1), {GPU: str(played)} | resources, devices=devices)
    return NodeSpec(kind, int(number or 1), resources, played, devices)


def _parse_played(text: str, kind: str, value: str) -> int:
    """Return how many GPUs a node of this kind should simulate. Raises `NodeSpecError`.

    text: the whole value of `--nodes`, for errors.
    """
    count, _, how = value.partition(":")
    if how not in ("", "fake") or (kind == "process" and not how):
        raise NodeSpecError(f"{text!r}: a process node offers the GPUs of its machine; gpus=4:fake plays four instead")
    if not (count.isascii() and count.isdigit() and 1 <= int(count) <= MAX_GPUS):
        raise NodeSpecError(f"{text!r}: {count!r} is not a number of GPUs from 1 to {MAX_GPUS}")
    return int(count)


def _parse_devices(text: str, kind: str, part: str) -> dict[str, int]:
    """Return how many devices of a driver each node has. Raises `NodeSpecError`.

    text: the whole value of `--nodes`, for errors.
    """
    driver, _, count = part.partition("=")
    if kind != "simulated":
        raise NodeSpecError(f"{text!r}: only simulated nodes play devices for resource claims")
    if sentences := names.dns_subdomain(driver):
        raise NodeSpecError(f"{text!r}: {driver!r} is not a name of a driver: {sentences[0]}")
    if not (count.isascii() and count.isdigit() and 1 <= int(count) <= MAX_DEVICES):
        raise NodeSpecError(f"{text!r}: {count!r} is not a number of devices from 1 to {MAX_DEVICES}")
    return {driver: int(count)}


def _suggest(word: str, known: Sequence[str]) -> str:
    """Return a suggestion for a mistyped word, as the end of a sentence; "" if no known word is similar."""
    from difflib import get_close_matches

    matches = get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {matches[0]}?" if matches else ""
