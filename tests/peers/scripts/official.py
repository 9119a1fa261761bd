"""The official client: typed, watching, and dynamic."""

import sys
import threading
from typing import Any

import kubernetes
import kubernetes.dynamic

namespace = sys.argv[1]
k8s: Any = kubernetes  # the client is only partly typed
client: Any = k8s.client
k8s.config.load_kube_config()
core, batch = client.CoreV1Api(), client.BatchV1Api()


def watched() -> list[str]:
    """The types of events of the config map, to the last."""
    seen: list[str] = []
    for event in k8s.watch.Watch().stream(
        core.list_namespaced_config_map, namespace, field_selector="metadata.name=c", timeout_seconds=20
    ):
        seen.append(event["type"])
        if seen[-1] == "DELETED":
            return seen
    raise AssertionError(f"the watch ended: {seen}")


def refused(call: Any, *arguments: Any) -> int:
    try:
        call(*arguments)
    except client.ApiException as error:
        return int(error.status)
    return 0


found: list[str] = []
watcher = threading.Thread(target=lambda: found.extend(watched()))
watcher.start()
body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="c", labels={"a": "b"}), data={"k": "v"})
created = core.create_namespaced_config_map(namespace, body)
assert created.metadata.uid
patched = core.patch_namespaced_config_map("c", namespace, {"data": {"k": "w", "l": "x"}})
assert patched.data == {"k": "w", "l": "x"}
[listed] = core.list_namespaced_config_map(namespace, label_selector="a=b").items
assert listed.metadata.resource_version == patched.metadata.resource_version
listed.data["m"] = "y"
core.replace_namespaced_config_map("c", namespace, listed)
assert refused(core.replace_namespaced_config_map, "c", namespace, patched) == 409
core.delete_namespaced_config_map("c", namespace)
watcher.join(20)
assert found == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"], found
assert refused(core.read_namespaced_config_map, "c", namespace) == 404

container = client.V1Container(name="main", image="none", command=["sh", "-c", "echo from the job"])
template = client.V1PodTemplateSpec(spec=client.V1PodSpec(restart_policy="Never", containers=[container]))
job = client.V1Job(metadata=client.V1ObjectMeta(name="j"), spec=client.V1JobSpec(template=template, backoff_limit=0))
batch.create_namespaced_job(namespace, job)
for event in k8s.watch.Watch().stream(batch.list_namespaced_job, namespace, timeout_seconds=30):
    if any(c.type == "Complete" and c.status == "True" for c in event["object"].status.conditions or []):
        break
else:
    raise AssertionError("the job never completed")
[pod] = core.list_namespaced_pod(namespace, label_selector="job-name=j").items
assert pod.status.phase == "Succeeded"
assert core.read_namespaced_pod_log(pod.metadata.name, namespace) == "from the job\n"
batch.delete_namespaced_job("j", namespace, propagation_policy="Foreground")

objects = k8s.dynamic.DynamicClient(client.ApiClient())
secrets = objects.resources.get(api_version="v1", kind="Secret")
secrets.create(namespace=namespace, body={"metadata": {"name": "s"}, "stringData": {"k": "v"}})
assert secrets.get(name="s", namespace=namespace).data.k == "dg=="
change = {"stringData": {"k": "w"}}
secrets.patch(name="s", namespace=namespace, body=change, content_type="application/merge-patch+json")
assert [(item.metadata.name, item.data.k) for item in secrets.get(namespace=namespace).items] == [("s", "dw==")]
secrets.delete(name="s", namespace=namespace)
print("done")
