"""An operator on kopf: children, finalizers, timers, status, and its own admission webhooks.

`kopf_client` plays the user.
"""

import os
from pathlib import Path
from typing import Any

import kopf
import kubernetes
import trustme

k8s: Any = kubernetes
GROUP, PLURAL = "kopf.test", "toys"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    k8s.config.load_kube_config()
    directory = Path(os.environ["HOME"])
    authority = trustme.CA()
    pair = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    pair.private_key_pem.write_to_path(directory / "key.pem")
    pair.cert_chain_pems[0].write_to_path(directory / "cert.pem")
    settings.admission.managed = "kopf.test"
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        host="127.0.0.1",
        cafile=directory / "ca.pem",
        certfile=directory / "cert.pem",
        pkeyfile=directory / "key.pem",
    )
    settings.posting.enabled = True


@kopf.on.validate(GROUP, PLURAL)
def small_enough(spec: kopf.Spec, warnings: list[str], **_: Any) -> None:
    if spec.get("size", 0) > 100:
        raise kopf.AdmissionError("a toy of more than 100 is none", code=422)
    if spec.get("size", 0) > 50:
        warnings.append("that is a big toy")


@kopf.on.mutate(GROUP, PLURAL)
def painted(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    if "colour" not in spec:
        patch.spec["colour"] = "red"


@kopf.on.create(GROUP, PLURAL)  # type: ignore[arg-type]
def created(name: str, namespace: str, spec: kopf.Spec, **_: Any) -> dict[str, str]:
    child = {"metadata": {"name": f"{name}-box"}, "data": {"size": str(spec["size"]), "colour": spec["colour"]}}
    kopf.adopt(child)
    k8s.client.CoreV1Api().create_namespaced_config_map(namespace, child)
    return {"box": f"{name}-box"}


@kopf.on.update(GROUP, PLURAL, field="spec.size")  # type: ignore[arg-type]
def resized(name: str, namespace: str, new: int, **_: Any) -> None:
    k8s.client.CoreV1Api().patch_namespaced_config_map(f"{name}-box", namespace, {"data": {"size": str(new)}})


@kopf.on.delete(GROUP, PLURAL)  # type: ignore[arg-type]
def deleted(name: str, namespace: str, **_: Any) -> None:
    k8s.client.CoreV1Api().create_namespaced_config_map(namespace, {"metadata": {"name": f"{name}-was-here"}})


@kopf.timer(GROUP, PLURAL, interval=0.5)
def ticks(status: kopf.Status, patch: kopf.Patch, **_: Any) -> None:
    patch.status["ticks"] = status.get("ticks", 0) + 1
