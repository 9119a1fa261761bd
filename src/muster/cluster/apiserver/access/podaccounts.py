"""Pods run as service accounts: admission fills in which, and mounts its token.

As k8s.io/kubernetes (plugin/pkg/admission/serviceaccount). The account `default` may still be on its way: the namespace
controller makes it in every namespace, and until then the pod waits for its token, not its writer for an answer.
"""

from typing import Any

import msgspec

from muster.api.core import SERVICE_ACCOUNT, ServiceAccount
from muster.cluster.apiserver.admission.chain import Attempt, Plugin, keep
from muster.cluster.store import Key, Store
from muster.runtime.ids import SAFE_ALPHABET

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
ROOT_CA = "kube-root-ca.crt"
TOKEN_SECONDS = 3607  # an hour, and a little by which upstream knows that no user chose it
_VOLUME_PREFIX = "kube-api-access-"
_DEFAULT = "default"


def pod_accounts(*, mount: bool) -> Plugin:
    """The plugin; `mount` says whether pods get a token at all."""

    def complete(attempt: Attempt, store: Store) -> None:
        if attempt.resource.key != "pods" or attempt.subresource:
            return
        spec = attempt.document["spec"]
        if attempt.operation == "CREATE":
            account = _account(attempt, store)
            if mount and _wants_token(spec, account):
                _mount_token(spec, attempt.document["metadata"]["uid"])
            if account.image_pull_secrets and not spec.get("imagePullSecrets"):
                spec["imagePullSecrets"] = msgspec.to_builtins(account.image_pull_secrets)
        elif attempt.operation == "UPDATE":
            keep(attempt, "serviceAccountName", "serviceAccount")

    return complete


def _account(attempt: Attempt, store: Store) -> ServiceAccount:
    """The account that the pod runs as; names it in the pod. Raises `ApiError` (403) if there is none."""
    spec = attempt.document["spec"]
    name = spec.get("serviceAccountName") or _DEFAULT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    entry = store.latest(Key(SERVICE_ACCOUNT.resource, attempt.namespace, name))
    if entry is not None:
        return SERVICE_ACCOUNT.decode(entry.body)
    if name == _DEFAULT:
        return ServiceAccount()
    raise attempt.refused(
        f'error looking up service account {attempt.namespace}/{name}: serviceaccount "{name}" not found'
    )


def _wants_token(spec: dict[str, Any], account: ServiceAccount) -> bool:
    own = spec.get("automountServiceAccountToken")
    return account.automount_service_account_token is not False if own is None else bool(own)


def _mount_token(spec: dict[str, Any], uid: str) -> None:
    """Mount the account's token into every container that has nothing else there."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    missing = [container for container in containers if not _has_mount(container)]
    if not missing:
        return
    name = _existing(spec) or _VOLUME_PREFIX + _suffix(uid)
    for container in missing:
        container.setdefault("volumeMounts", []).append({"name": name, "readOnly": True, "mountPath": MOUNT_PATH})
    volumes = spec.setdefault("volumes", [])
    if all(volume.get("name") != name for volume in volumes):
        volumes.append({"name": name, "projected": {"defaultMode": 0o644, "sources": _sources()}})


def _sources() -> list[dict[str, Any]]:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]


def _has_mount(container: dict[str, Any]) -> bool:
    return any(mount.get("mountPath") == MOUNT_PATH for mount in container.get("volumeMounts") or ())


def _existing(spec: dict[str, Any]) -> str:
    """A volume that was made for this already: the pod is a copy of another one."""
    names = (str(volume.get("name", "")) for volume in spec.get("volumes") or ())
    return next((name for name in names if name.startswith(_VOLUME_PREFIX)), "")


def _suffix(uid: str) -> str:
    """Five letters that belong to the pod."""
    number = int(uid.replace("-", "")[:10] or "0", 16)
    letters = []
    for _ in range(5):
        number, digit = divmod(number, len(SAFE_ALPHABET))
        letters.append(SAFE_ALPHABET[digit])
    return "".join(letters)
