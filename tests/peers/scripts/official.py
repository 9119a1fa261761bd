"""The official client: typed, watching, and dynamic."""

import sys
import threading

from kubernetes import client, config, dynamic, watch

namespace = sys.argv[1]
config.load_kube_config()
core, batch = client.CoreV1Api(), client.BatchV1Api()


def names_and_types(stop_after: str) -> list[tuple[str, str]]:
    seen = []
    for event in watch.Watch().stream(core.list_namespaced_config_map, namespace, timeout_seconds=20):
        seen.append((event["object"].metadata.name, event["type"]))
        if seen[-1] == (stop_after, "DELETED"):
            return seen
    raise AssertionError(f"the watch ended: {seen}")


found: list[tuple[str, str]] = []
watcher = threading.Thread(target=lambda: found.extend(names_and_types("c")))
watcher.start()
body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="c", labels={"a": "b"}), data={"k": "v"})
created = core.create_namespaced_config_map(namespace, body)
assert created.metadata.uid
patched = core.patch_namespaced_config_map("c", namespace, {"data": {"k": "w", "l": "x"}})
assert patched.data == {"k": "w", "l": "x"}
[listed] = core.list_namespaced_config_map(namespace, label_selector="a=b").items
assert listed.metadata.resource_version == patched.metadata.resource_version
listed.data["m"] = "y"
replaced = core.replace_namespaced_config_map("c", namespace, listed)
try:
    core.replace_namespaced_config_map("c", namespace, patched)
except client.ApiException as error:
    assert error.status == 409
else:
    raise AssertionError("a stale object replaced a newer one")
core.delete_namespaced_config_map("c", namespace)
watcher.join(20)
assert [type_ for _, type_ in found] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"], found

template = client.V1PodTemplateSpec(
    spec=client.V1PodSpec(
        restart_policy="Never",
        containers=[client.V1Container(name="main", image="none", command=["sh", "-c", "echo from the job"])],
    )
)
job = client.V1Job(metadata=client.V1ObjectMeta(name="j"), spec=client.V1JobSpec(template=template, backoff_limit=0))
batch.create_namespaced_job(namespace, job)
for event in watch.Watch().stream(batch.list_namespaced_job, namespace, timeout_seconds=30):
    if any(c.type == "Complete" and c.status == "True" for c in event["object"].status.conditions or []):
        break
else:
    raise AssertionError("the job never completed")
[pod] = core.list_namespaced_pod(namespace, label_selector="job-name=j").items
assert pod.status.phase == "Succeeded"
assert core.read_namespaced_pod_log(pod.metadata.name, namespace) == "from the job\n"
batch.delete_namespaced_job("j", namespace, propagation_policy="Foreground")

objects = dynamic.DynamicClient(client.ApiClient())
secrets = objects.resources.get(api_version="v1", kind="Secret")
secrets.create(namespace=namespace, body={"metadata": {"name": "s"}, "stringData": {"k": "v"}})
assert secrets.get(name="s", namespace=namespace).data.k == "dg=="
secrets.patch(
    name="s",
    namespace=namespace,
    body={"stringData": {"k": "w"}},
    content_type="application/merge-patch+json",
)
assert [item.metadata.name for item in secrets.get(namespace=namespace).items] == ["s"]
secrets.delete(name="s", namespace=namespace)
print("done")
