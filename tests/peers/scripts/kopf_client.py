"""The user of the toys' operator, which it starts: makes, changes and deletes toys, and looks at what comes of it."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes

namespace = sys.argv[1]
k8s: Any = kubernetes
client: Any = k8s.client
k8s.config.load_kube_config()
core, toys = client.CoreV1Api(), client.CustomObjectsApi()
WHERE = ("kopf.test", "v1", namespace, "toys")

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "colour": {"type": "string"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "toys.kopf.test"},
    "spec": {
        "group": "kopf.test",
        "names": {"kind": "Toy", "plural": "toys"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SCHEMA},
                "subresources": {"status": {}},
            }
        ],
    },
}


def eventually(what: Callable[[], Any]) -> Any:
    """What it gives, once it gives anything."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            if found := what():
                return found
        except client.ApiException as error:
            if error.status != 404:
                raise
        time.sleep(0.1)
    raise AssertionError(f"never: {what.__name__}")


def toy(name: str, size: int) -> Any:
    body = {"apiVersion": "kopf.test/v1", "kind": "Toy", "metadata": {"name": name}, "spec": {"size": size}}
    return toys.create_namespaced_custom_object(*WHERE, body)


def refused(call: Callable[[], Any]) -> tuple[int, str]:
    """The code and the text of a refusal."""
    try:
        call()
    except client.ApiException as error:
        return int(error.status), str(error.body)
    return 0, ""


def hooked() -> bool:
    """The operator's webhooks are in place."""
    hooks = client.AdmissionregistrationV1Api()
    return bool(
        hooks.read_validating_webhook_configuration("kopf.test").webhooks
        and hooks.read_mutating_webhook_configuration("kopf.test").webhooks
    )


def box() -> Any:
    return core.read_namespaced_config_map("bear-box", namespace).data


def play() -> None:
    eventually(hooked)
    made = toy("bear", 3)
    assert made["spec"]["colour"] == "red", made
    assert eventually(box) == {"size": "3", "colour": "red"}
    toys.patch_namespaced_custom_object(*WHERE, "bear", {"spec": {"size": 4}})
    eventually(lambda: box()["size"] == "4")
    now = eventually(
        lambda: (
            (found := toys.get_namespaced_custom_object(*WHERE, "bear")).get("status", {}).get("ticks", 0) > 1 and found
        )
    )
    assert now["status"]["created"] == {"box": "bear-box"}
    assert now["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
    code, text = refused(lambda: toy("elephant", 101))
    assert code == 422, text
    assert "a toy of more than 100 is none" in text, text
    toys.delete_namespaced_custom_object(*WHERE, "bear")
    eventually(lambda: core.read_namespaced_config_map("bear-was-here", namespace))
    eventually(lambda: not toys.list_namespaced_custom_object(*WHERE)["items"])
    eventually(
        lambda: all(each.metadata.name != "bear-box" for each in core.list_namespaced_config_map(namespace).items)
    )


client.ApiextensionsV1Api().create_custom_resource_definition(DEFINITION)
operator = subprocess.Popen(
    [sys.executable, "-m", "kopf", "run", "--namespace", namespace, str(Path(__file__).with_name("kopf_operator.py"))],
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
)
try:
    play()
except BaseException:
    operator.terminate()
    print(operator.communicate(timeout=20)[0][-6000:])
    raise
operator.terminate()
log = operator.communicate(timeout=20)[0]
assert "Traceback" not in log, log[-6000:]
hooks = client.AdmissionregistrationV1Api()
for each in ("validating", "mutating"):
    getattr(hooks, f"delete_{each}_webhook_configuration")("kopf.test")
client.ApiextensionsV1Api().delete_custom_resource_definition("toys.kopf.test")
print("done")
