"""kr8s: objects that create, watch, patch and delete themselves."""

import asyncio
import sys
from typing import Any

import kr8s.asyncio
from kr8s.asyncio import objects

namespace = sys.argv[1]
kinds: Any = objects  # kr8s is only partly typed


async def watched(api: Any, created: asyncio.Event) -> list[str]:
    """The types of events of config maps, to the first deletion."""
    seen: list[str] = []
    async for event, _ in api.watch("configmaps", namespace=namespace, field_selector="metadata.name=c"):
        seen.append(event)
        created.set()
        if event == "DELETED":
            break
    return seen


async def main() -> None:
    api: Any = await kr8s.asyncio.api(namespace=namespace)
    meta = {"namespace": namespace}
    config = await kinds.ConfigMap({"metadata": meta | {"name": "c"}, "data": {"k": "v"}}, api=api)
    await config.create()
    seen = asyncio.Event()
    watcher = asyncio.create_task(watched(api, seen))
    await asyncio.wait_for(seen.wait(), 20)
    assert await config.exists()
    await config.patch({"data": {"k": "w"}})
    await config.refresh()
    assert config.data == {"k": "w"}
    await config.label(a="b")
    assert [found.name async for found in api.get("configmaps", namespace=namespace, label_selector="a=b")] == ["c"]
    await config.delete()
    assert await asyncio.wait_for(watcher, 20) == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert not await config.exists()

    container = {"name": "main", "image": "none", "command": ["sh", "-c", "echo from the job"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = await kinds.Job(
        {"metadata": meta | {"name": "j"}, "spec": {"backoffLimit": 0, "template": template}}, api=api
    )
    await job.create()
    await asyncio.wait_for(job.wait("condition=Complete"), 30)
    [pod] = [pod async for pod in api.get("pods", namespace=namespace, label_selector="job-name=j")]
    assert [line async for line in pod.logs()] == ["from the job"]
    await job.delete(propagation_policy="Foreground")
    print("done")


asyncio.run(main())
