"""lightkube: typed resources, synchronously."""

import sys
import threading
from typing import Any

from lightkube import ApiError, Client
from lightkube.generic_resource import get_generic_resource, load_in_cluster_generic_resources
from lightkube.models.batch_v1 import JobSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import ConfigMap, Pod
from lightkube.types import PatchType

namespace = sys.argv[1]
client: Any = Client(namespace=namespace)
found: list[str] = []


def watch() -> None:
    for event, _ in client.watch(ConfigMap, fields={"metadata.name": "c"}, server_timeout=20):
        found.append(event)
        if event == "DELETED":
            return


def is_gone(name: str) -> bool:
    try:
        client.get(ConfigMap, name)
    except ApiError as error:
        return error.status.code == 404
    return False


watcher = threading.Thread(target=watch)
watcher.start()
created = client.create(ConfigMap(metadata=ObjectMeta(name="c"), data={"k": "v"}))
assert created.metadata.uid
for type_, patch in ((PatchType.STRATEGIC, {"data": {"l": "1"}}), (PatchType.MERGE, {"data": {"k": None}})):
    client.patch(ConfigMap, "c", patch, patch_type=type_)
client.patch(ConfigMap, "c", [{"op": "add", "path": "/data/m", "value": "2"}], patch_type=PatchType.JSON)
assert client.get(ConfigMap, "c").data == {"l": "1", "m": "2"}
assert [config.metadata.name for config in client.list(ConfigMap, fields={"metadata.name": "c"})] == ["c"]
client.delete(ConfigMap, "c")
watcher.join(20)
assert found[-1] == "DELETED", found
assert is_gone("c")

container = Container(name="main", image="none", command=["sh", "-c", "echo from the job"])
template = PodTemplateSpec(spec=PodSpec(restartPolicy="Never", containers=[container]))
client.create(Job(metadata=ObjectMeta(name="j"), spec=JobSpec(template=template, backoffLimit=0)))
client.wait(Job, "j", for_conditions=["Complete"])
[pod] = client.list(Pod, labels={"job-name": "j"})
assert list(client.log(pod.metadata.name)) == ["from the job\n"]
client.delete(Job, "j")

load_in_cluster_generic_resources(client)
JobSet: Any = get_generic_resource("jobset.x-k8s.io/v1alpha2", "JobSet")
spec = {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": template.to_dict()}}}]}
client.create(JobSet(metadata=ObjectMeta(name="s"), spec=spec))
client.wait(JobSet, "s", for_conditions=["Completed"])
client.delete(JobSet, "s")
print("done")
