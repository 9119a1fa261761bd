"""Decisions beside kube-scheduler's: on which nodes of a random world the pod that waits may go.

MUSTER_KUBE_WORLDS says how many worlds, MUSTER_KUBE_SEED which.

All worlds lie in one cluster. To ask for one node alone, the pod asks for a resource that only this node has: nothing
else of what is decided changes by that.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
from tests.kubeplane import kube_plane, needs_kubernetes
from tests.unit.gang.test_predicates import capacity_of
from tests.unit.gang.test_predicates import decided as decided_here
from tests.worlds import Manifest, World, random_world

WORLDS = int(os.environ.get("MUSTER_KUBE_WORLDS", "300"))
SEED = int(os.environ.get("MUSTER_KUBE_SEED", "20260101"))

pytestmark = [needs_kubernetes, pytest.mark.timeout(1800)]

AT_ONCE = 32
PROBE = "example.com/probe"


def test_pods_go_where_kube_scheduler_lets_them(tmp_path: Path) -> None:
    random = Random(SEED)
    worlds = [random_world(random, str(number)) for number in range(WORLDS)]
    theirs = asyncio.run(_ask(worlds, tmp_path))
    ours = {world.name: decided_here(capacity_of(world), world) for world in worlds}
    different = [world for world in worlds if ours[world.name] != theirs[world.name]]
    shown = [f"{world}: here {ours[world.name]}, there {theirs[world.name]}" for world in different[:3]]
    assert not different, f"{len(different)} of {len(worlds)} worlds\n" + "\n\n".join(shown)
    assert any(ours.values())
    assert not all(len(ours[world.name]) == len(world.nodes) for world in worlds)


async def _ask(worlds: list[World], home: Path) -> dict[str, set[str]]:
    """The nodes that kube-scheduler takes, by world."""
    async with _control_plane(home) as cluster:
        await _build(cluster, worlds)
        found: dict[str, set[str]] = {world.name: set() for world in worlds}
        for number in range(max(len(world.nodes) for world in worlds)):
            asked = [world for world in worlds if number < len(world.nodes)]
            probes = {_name(world, number): world for world in asked}
            await cluster.all(cluster.create("pods", _probe(world, number)) for world in asked)
            nodes = await _decisions(cluster, set(probes))
            for name, node in nodes.items():
                if node:
                    assert node == probes[name].nodes[number]["metadata"]["name"]
                    found[probes[name].name].add(node)
            await cluster.all(cluster.delete("pods", _probe(world, number), grace=0) for world in asked)
        return found


async def _build(cluster: "_Cluster", worlds: list[World]) -> None:
    await cluster.all(cluster.create("namespaces", one) for world in worlds for one in world.namespaces)
    nodes = (_with_probe(node, number) for world in worlds for number, node in enumerate(world.nodes))
    await cluster.all(cluster.create("nodes", node) for node in nodes)
    await cluster.all(cluster.create("persistentvolumes", one) for world in worlds for one in world.volumes)
    await cluster.all(cluster.create("persistentvolumeclaims", one) for world in worlds for one in world.claims)
    await cluster.all(cluster.create("pods", one) for world in worlds for one in world.bound)
    leaving = (pod for world in worlds for pod in world.bound if pod["metadata"]["name"] in world.leaving)
    await cluster.all(cluster.delete("pods", pod) for pod in leaving)


def _with_probe(node: Manifest, number: int) -> Manifest:
    node = deepcopy(node)
    for amounts in (node["status"]["allocatable"], node["status"]["capacity"]):
        amounts[f"{PROBE}{number}"] = "9"
    return node


def _name(world: World, number: int) -> str:
    return f"w{world.name}-probe{number}"


def _probe(world: World, number: int) -> Manifest:
    pod = deepcopy(world.pending)
    pod["metadata"]["name"] = _name(world, number)
    resources = pod["spec"]["containers"][0]["resources"]
    for amounts in (resources.setdefault("requests", {}), resources.setdefault("limits", {})):
        amounts[f"{PROBE}{number}"] = "1"
    return pod


async def _decisions(cluster: "_Cluster", names: set[str]) -> dict[str, str]:
    """The node of each pod, "" for those that none takes, once all are decided."""
    for _ in range(600):
        pods = {pod["metadata"]["name"]: pod for pod in await cluster.list("pods")}
        nodes = {name: pods[name]["spec"].get("nodeName") or _refused(pods[name]) for name in names}
        decided = {name: node for name, node in nodes.items() if node is not None}
        if len(decided) == len(names):
            return decided
        await asyncio.sleep(0.5)
    raise AssertionError("kube-scheduler does not decide")


def _refused(pod: Manifest) -> str | None:
    for condition in pod["status"].get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            assert condition["reason"] == "Unschedulable", condition
            return ""
    return None


class _Cluster:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self._limit = asyncio.Semaphore(AT_ONCE)

    async def all(self, calls: Iterable[Any]) -> None:
        await asyncio.gather(*calls)

    async def create(self, plural: str, manifest: Manifest) -> None:
        kind = {"namespaces": "Namespace", "nodes": "Node", "pods": "Pod"}.get(plural)
        typed = ({"apiVersion": "v1", "kind": kind} if kind else {"apiVersion": "v1"}) | manifest
        await self._send("POST", self._path(plural, manifest), typed)

    async def delete(self, plural: str, manifest: Manifest, *, grace: int | None = None) -> None:
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        path = f"{self._path(plural, manifest)}/{manifest['metadata']['name']}"
        await self._send("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})

    async def list(self, plural: str) -> list[Manifest]:
        items: list[Manifest] = (await self._send("GET", f"/api/v1/{plural}", None))["items"]
        return items

    def _path(self, plural: str, manifest: Manifest) -> str:
        space = manifest["metadata"].get("namespace")
        return f"/api/v1/namespaces/{space}/{plural}" if space else f"/api/v1/{plural}"

    async def _send(self, method: str, path: str, body: Manifest | None) -> Any:
        async with self._limit, self._session.request(method, self._url + path, json=body) as response:
            answer = await response.json()
            assert response.status < 400, f"{method} {path}: {answer.get('message')} {body}"
            return answer


@asynccontextmanager
async def _control_plane(home: Path) -> AsyncIterator[_Cluster]:
    """A server that says nothing of its own about nodes, and kube-scheduler."""
    flags = ["--disable-admission-plugins=TaintNodesByCondition,ServiceAccount"]
    with kube_plane(home, "kube-scheduler", authorization="AlwaysAllow", flags=flags) as plane:
        headers = {"Authorization": f"Bearer {plane.token}"}
        async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session:
            yield _Cluster(session, plane.url)
