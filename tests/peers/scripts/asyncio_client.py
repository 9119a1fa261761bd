"""The asyncio client: a watch beside writes, server-side apply, and a custom resource through its dynamic client."""

import asyncio
import sys
from collections.abc import Awaitable
from typing import Any

import kubernetes_asyncio
from kubernetes_asyncio.dynamic import DynamicClient

namespace = sys.argv[1]
k8s: Any = kubernetes_asyncio
client: Any = k8s.client

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kites.asyncio.test"},
    "spec": {
        "group": "asyncio.test",
        "names": {"kind": "Kite", "plural": "kites"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"tail": {"type": "integer", "minimum": 1, "default": 3}},
                            }
                        },
                    }
                },
            }
        ],
    },
}


async def refused(call: Awaitable[Any]) -> int:
    try:
        await call
    except client.ApiException as error:
        return int(error.status)
    return 0


async def watched(core: Any) -> list[str]:
    """The types of events of the config map, to the last."""
    seen: list[str] = []
    async with k8s.watch.Watch().stream(
        core.list_namespaced_config_map, namespace, field_selector="metadata.name=c", timeout_seconds=20
    ) as stream:
        async for event in stream:
            seen.append(event["type"])
            if seen[-1] == "DELETED":
                return seen
    raise AssertionError(f"the watch ended: {seen}")


async def config_maps(core: Any) -> None:
    watcher = asyncio.create_task(watched(core))
    await core.create_namespaced_config_map(namespace, {"metadata": {"name": "c"}, "data": {"k": "v"}})
    patched = await core.patch_namespaced_config_map("c", namespace, {"data": {"l": "x"}})
    assert patched.data == {"k": "v", "l": "x"}
    assert await refused(core.create_namespaced_config_map(namespace, {"metadata": {"name": "c"}})) == 409
    await core.delete_namespaced_config_map("c", namespace)
    assert await watcher == ["ADDED", "MODIFIED", "DELETED"]


async def custom_resources(api: Any) -> None:
    definitions = client.ApiextensionsV1Api(api)
    await definitions.create_custom_resource_definition(DEFINITION)
    dynamic: Any = await DynamicClient(api)
    kites = await dynamic.resources.get(api_version="asyncio.test/v1", kind="Kite")
    kite = {"apiVersion": "asyncio.test/v1", "kind": "Kite"}
    made = await kites.create(body=kite | {"metadata": {"name": "red"}, "spec": {}}, namespace=namespace)
    assert made.spec.tail == 3
    body = kite | {"metadata": {"name": "red"}, "spec": {"tail": 7}}
    applied = await kites.server_side_apply(
        body=body, name="red", namespace=namespace, field_manager="asyncio", force_conflicts=True
    )
    assert applied.spec.tail == 7
    assert "asyncio" in {entry.manager for entry in applied.metadata.managedFields}
    tailless = kite | {"metadata": {"name": "blue"}, "spec": {"tail": 0}}
    # This client hands out the Status, and raises nothing.
    refusal = await kites.create(body=tailless, namespace=namespace)
    assert (refusal.kind, refusal.code) == ("Status", 422), refusal
    assert "spec.tail in body should be greater than or equal to 1" in refusal.message, refusal
    await definitions.delete_custom_resource_definition("kites.asyncio.test")


async def main() -> None:
    await k8s.config.load_kube_config()
    async with client.ApiClient() as api:
        await config_maps(client.CoreV1Api(api))
        await custom_resources(api)


asyncio.run(main())
print("done")
