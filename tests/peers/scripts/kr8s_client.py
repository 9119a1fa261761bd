"""kr8s: objects that create, watch, patch and delete themselves."""

import asyncio
import sys

import kr8s
from kr8s.asyncio.objects import ConfigMap, Job, Pod

namespace = sys.argv[1]


async def main() -> None:
    api = await kr8s.asyncio.api(namespace=namespace)
    ready = asyncio.Event()

    async def watch() -> list[str]:
        seen = []
        ready.set()
        async for event, _ in api.watch("configmaps", namespace=namespace):
            seen.append(event)
            if event == "DELETED":
                break
        return seen

    watcher = asyncio.create_task(watch())
    await ready.wait()
    config = await ConfigMap({"metadata": {"name": "c", "namespace": namespace}, "data": {"k": "v"}}, api=api)
    await config.create()
    assert await config.exists()
    await config.patch({"data": {"k": "w"}})
    await config.refresh()
    assert config.data == {"k": "w"}
    await config.label(a="b")
    assert [found.name async for found in api.get("configmaps", namespace=namespace, label_selector="a=b")] == ["c"]
    while watcher.done() is False and "ADDED" not in str(watcher):
        break
    await config.delete()
    assert (await asyncio.wait_for(watcher, 20))[-1] == "DELETED"

    spec = {
        "backoffLimit": 0,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", "echo from the job"]}],
            }
        },
    }
    job = await Job({"metadata": {"name": "j", "namespace": namespace}, "spec": spec}, api=api)
    await job.create()
    await asyncio.wait_for(job.wait("condition=Complete"), 30)
    [pod] = [pod async for pod in Pod.list(namespace=namespace, label_selector="job-name=j", api=api)]
    assert [line async for line in pod.logs()] == ["from the job"]
    await job.delete(propagation_policy="Foreground")
    print("done")


asyncio.run(main())
