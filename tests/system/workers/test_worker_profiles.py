"""A worker that a ClusterProfile describes, over HTTPS, with a credential that the administrator's program prints."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec
import yaml
from tests.system.queueing.queueing_world import workload
from tests.system.workers.test_worker_https import CLONE, Manager, Worker, manager, rules_in_the_docs, worker

from muster.api.config.types import AccessProvider, ClusterProfile, ExecCredentials
from muster.api.groups.clusterinventory import CLUSTER_PROFILE
from muster.api.kueue import MULTI_KUEUE_CLUSTER, MultiKueueCluster
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION

VERSION = "client.authentication.k8s.io/v1"
SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SERVED = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
DEFINITION = {
    "metadata": {"name": "clusterprofiles.multicluster.x-k8s.io"},
    "spec": {
        "group": "multicluster.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "clusterprofiles", "singular": "clusterprofile", "kind": "ClusterProfile"},
        "versions": [SERVED],
    },
}
PROGRAM = """
import json, sys
status = {"token": open(sys.argv[2]).read()}
print(json.dumps({"apiVersion": sys.argv[1], "kind": "ExecCredential", "status": status}))
"""


def plugin(directory: Path) -> ClusterProfile:
    """A program that prints the token in a file."""
    program = directory / "credentials"
    program.write_text(f"#!{sys.executable}\n{PROGRAM}")
    program.chmod(0o700)
    said = ExecCredentials(
        command=str(program), args=(VERSION, str(directory / "token")), api_version=VERSION, interactive_mode="Never"
    )
    return ClusterProfile(access_providers=(AccessProvider(name="ours", exec_config=said),))


async def profile(managing: Manager, working: Worker, name: str, **cluster: str) -> None:
    """What a cluster manager writes of the worker."""
    where: dict[str, Any] = yaml.safe_load(working.kubeconfig())["clusters"][0]["cluster"]
    status = {"accessProviders": [{"name": name, "cluster": where | cluster}]}
    document = {"metadata": {"name": "p", "namespace": "kueue-system"}, "status": status}
    kind = CLUSTER_PROFILE.seen_as(dict)
    if await managing.client.find(kind, "p", "kueue-system") is None:
        await managing.client.create(kind, document)
    else:
        await managing.client.patch(kind, "p", {"status": status}, "kueue-system")


def test_a_worker_is_found_by_its_profile(tmp_path: Path) -> None:
    async def body() -> None:
        async with (
            manager(tmp_path, plugin(tmp_path), MultiKueueClusterProfile=True) as managing,
            worker(tmp_path / "w") as working,
        ):
            await working.account(rules_in_the_docs())
            (tmp_path / "token").write_text(await working.token())
            await workload(working.world, "clone", "q", metadata=CLONE)
            spec = {"clusterSource": {"clusterProfileRef": {"name": "p"}}}
            cluster = msgspec.convert({"metadata": {"name": "w"}, "spec": spec}, MultiKueueCluster)
            await managing.client.create(MULTI_KUEUE_CLUSTER, cluster)
            missing = 'load client config failed: clusterprofiles.multicluster.x-k8s.io "p" not found'
            await managing.until("BadClusterProfile", missing)
            await managing.client.create(CUSTOM_RESOURCE_DEFINITION.seen_as(dict), DEFINITION)
            async with asyncio.timeout(30):
                while not await served(managing):
                    await asyncio.sleep(0.01)
            await profile(managing, working, "theirs")
            await managing.until("BadClusterProfile", "no matching cluster accessor found")
            await profile(managing, working, "ours", **{"proxy-url": "http://127.0.0.1:1"})
            await managing.until("BadRestConfig", "proxy-url is not allowed")
            await profile(managing, working, "ours", **{"proxy-url": ""})
            await managing.until()
            assert managing.clones() == ["clone"]

    asyncio.run(body())


async def served(managing: Manager) -> bool:
    found = await managing.client.find(CUSTOM_RESOURCE_DEFINITION.seen_as(dict), CLUSTER_PROFILE.resource)
    conditions = (found or {}).get("status", {}).get("conditions", [])
    return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)
