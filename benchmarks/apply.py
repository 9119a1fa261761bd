"""Server-side apply and custom resources beside plain writes of the same size: how much they cost.

    python benchmarks/apply.py [--seconds 3] [--writers 64] [--rounds 3] [--directory DIR]

A plain write creates a pod of about 2 KB, or merges a whole one that differs in a label. The custom resource holds the
same under a structural schema with defaults, limits, patterns and two CEL rules. Kinds of writes take turns, a round
after the other; what counts is their ratio.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import uvloop
from apiserver import InProcess, pod, server
from clients import at_once

from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.apiserver.pipeline import ApiServer
from muster.runtime.transport import APPLY_PATCH, JSON, MERGE_PATCH, Request

PODS = "/api/v1/namespaces/default/pods"
TRAINS = "/apis/bench.test/v1/namespaces/default/trains"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RULES = [
    {"rule": "self.containers.all(c, c.name != '')", "message": "every container has a name"},
    {"rule": "has(oldSelf.subdomain) == has(self.subdomain)", "message": "the subdomain stays"},
]


STRING = {"type": "string"}
QUANTITIES = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^[0-9]+(\.[0-9]+)?([KMGTPE]i|[numkMGTPE])?$",
        "x-kubernetes-int-or-string": True,
    },
}


def _keyed(key: str, properties: dict[str, Any]) -> dict[str, Any]:
    """A list of objects that one member tells apart."""
    items = {"type": "object", "required": [key], "properties": {key: STRING | {"minLength": 1}} | properties}
    return {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


CONTAINERS = _keyed(
    "name",
    {
        "image": STRING,
        "imagePullPolicy": STRING | {"default": "Always", "enum": ["Always", "Never", "IfNotPresent"]},
        "command": {"type": "array", "items": STRING, "x-kubernetes-list-type": "atomic"},
        "env": _keyed("name", {"value": STRING}),
        "resources": {"type": "object", "properties": {"requests": QUANTITIES, "limits": QUANTITIES}},
    },
)
SPEC = {
    "type": "object",
    "required": ["containers"],
    "properties": {
        "restartPolicy": STRING | {"enum": ["Always", "Never", "OnFailure"], "default": "Always"},
        "terminationGracePeriodSeconds": {"type": "integer", "format": "int64", "minimum": 0, "default": 30},
        "subdomain": STRING | {"maxLength": 63},
        "containers": CONTAINERS,
    },
    "x-kubernetes-validations": RULES,
}


def definition() -> dict[str, Any]:
    """A kind that holds what the pod holds."""
    schema = {"type": "object", "properties": {"spec": SPEC}, "required": ["spec"]}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "trains.bench.test"},
        "spec": {
            "group": "bench.test",
            "names": {"kind": "Train", "plural": "trains"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def train(number: int, **spec: Any) -> bytes:
    """The pod as a custom resource."""
    document = json.loads(pod(number))
    document |= {"apiVersion": "bench.test/v1", "kind": "Train"}
    document["spec"] |= spec
    return json.dumps(document).encode()


def relabelled(body: bytes, number: int) -> bytes:
    """The object with another label."""
    document = json.loads(body)
    document["metadata"]["labels"]["tier"] = f"t{number}"
    return json.dumps(document).encode()


# A job makes one write; what it writes is prepared before the clock runs.
Job = Callable[[Request], Awaitable[None]]


class Writes:
    """The kinds of writes, each with names of its own."""

    def __init__(self, api: ApiServer) -> None:
        self._transport = InProcessTransport(api)
        self._numbers = count()

    async def send(self, request: Request) -> None:
        response = await self._transport.request(request)
        assert response.status in (200, 201), response.body[:500]

    def prepared(self, kind: str, amount: int) -> list[Request]:
        """So many requests of a kind."""
        return [self._request(kind, next(self._numbers)) for _ in range(amount)]

    def _request(self, kind: str, number: int) -> Request:
        path, body = (PODS, pod(number)) if "pod" in kind else (TRAINS, train(number))
        target = f"{path}/{json.loads(body)['metadata']['name']}"
        manager = {"fieldManager": "bench", "force": "true"}
        if kind.startswith("apply"):
            return Request("PATCH", target, manager, body, APPLY_PATCH)
        return Request("POST", path, {"fieldManager": "bench"}, body, JSON)

    def changes(self, made: list[Request], kind: str) -> Iterator[Request]:
        """Changes of what was made, over and over."""
        for turn in count():
            for request in made:
                body = relabelled(request.body, turn)
                path = request.path
                if not path.rsplit("/", 1)[-1].startswith("train-"):
                    path = f"{path}/{json.loads(body)['metadata']['name']}"
                if kind.startswith("apply"):
                    yield Request("PATCH", path, {"fieldManager": "bench", "force": "true"}, body, APPLY_PATCH)
                else:
                    yield Request("PATCH", path, {"fieldManager": "bench"}, body, MERGE_PATCH)


CREATES = ("create pod", "apply pod", "create custom", "apply custom")


async def measure(api: ApiServer, seconds: float, writers: int, rounds: int) -> dict[str, list[float]]:
    """Writes per second by kind, a figure a round."""
    writes = Writes(api)
    target = InProcess(api)
    asks = [await target.connection() for _ in range(writers)]
    await writes.send(Request("POST", CRDS, {}, json.dumps(definition()).encode(), JSON))
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for kind in CREATES:
            prepared = writes.prepared(kind, int(8_000 * seconds))
            queue = iter(prepared)
            rate, times = await at_once(asks, seconds, lambda _: writes.send(next(queue)))  # noqa: B023
            found.setdefault(kind, []).append(rate)
            made = prepared[: min(len(times.values), 1_000)]
            change = kind.replace("create", "patch") if "create" in kind else f"{kind} again"
            queue = writes.changes(made, kind)
            changes = iter([next(queue) for _ in range(int(8_000 * seconds))])
            rate, _ = await at_once(asks, seconds, lambda _: writes.send(next(changes)))  # noqa: B023
            found.setdefault(change, []).append(rate)
    return found


def show(found: dict[str, list[float]]) -> None:
    """A line for each kind: the median rate, and its ratio to the plain write's (the median of the rounds' ratios)."""
    print(f"{'':24}{'/s':>8}   of the plain write")
    for kind, rates in found.items():
        plain = found["create pod" if kind in CREATES else "patch pod"]
        ratio = statistics.median(rate / other for rate, other in zip(rates, plain, strict=True))
        print(f"{kind:24}{statistics.median(rates):>8,.0f}   {ratio:.2f}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--writers", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        async with server(Path(directory)) as api:
            show(await measure(api, options.seconds, options.writers, options.rounds))


if __name__ == "__main__":
    uvloop.run(main())
