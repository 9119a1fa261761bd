"""Set the service account of a new pod, and mount the account's token into its containers.

The rules follow k8s.io/kubernetes (plugin/pkg/admission/serviceaccount), with one exception. The namespace
controller creates the account `default` in every namespace, and may not have done so yet. A pod of this account is
admitted even before the account exists, and then waits for its token.
"""

from typing import Any
from zlib import crc32

import msgspec

from muster.api.core import SERVICE_ACCOUNT, ServiceAccount
from muster.cluster.apiserver.admission.chain import Plugin, WriteAttempt, keep
from muster.cluster.store import Key, Store
from muster.runtime.ids import SAFE_ALPHABET

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
ROOT_CA = "kube-root-ca.crt"
TOKEN_SECONDS = 3607  # an hour; the odd seconds tell upstream that no user chose this number
_VOLUME_PREFIX = "kube-api-access-"
_DEFAULT = "default"


def pod_accounts(*, mount: bool) -> Plugin:
    """Return the admission plugin that gives a new pod its service account, token volume and pull secrets.

    If an update leaves out the account, the stored account stays.

    mount: whether pods get a token at all.
    """

    def complete(attempt: WriteAttempt, store: Store) -> None:
        if attempt.resource.key != "pods" or attempt.subresource:
            return
        spec = attempt.document["spec"]
        if attempt.operation == "CREATE":
            account = _set_account(attempt, store)
            if mount and _wants_token(spec, account):
                _mount_token(spec)
            if account.image_pull_secrets and not spec.get("imagePullSecrets"):
                spec["imagePullSecrets"] = msgspec.to_builtins(account.image_pull_secrets)
        elif attempt.operation == "UPDATE":
            keep(attempt, "serviceAccountName", "serviceAccount")

    return complete


def _set_account(attempt: WriteAttempt, store: Store) -> ServiceAccount:
    """Set the name of the pod's service account, if it is missing; return the account.

    If the account `default` does not exist, an empty account is returned. Raises `ApiError` (403) if another account
    does not exist.
    """
    spec = attempt.document["spec"]
    name = spec.get("serviceAccountName") or _DEFAULT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    entry = store.latest(Key(SERVICE_ACCOUNT.resource, attempt.namespace, name))
    if entry is not None:
        return SERVICE_ACCOUNT.decode(entry.body)
    if name == _DEFAULT:
        return ServiceAccount()
    raise attempt.make_refusal(
        f'error looking up service account {attempt.namespace}/{name}: serviceaccount "{name}" not found'
    )


def _wants_token(spec: dict[str, Any], account: ServiceAccount) -> bool:
    own = spec.get("automountServiceAccountToken")
    return account.automount_service_account_token is not False if own is None else bool(own)


def _mount_token(spec: dict[str, Any]) -> None:
    """Mount the account's token into every container that mounts nothing else at that path."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    missing = [container for container in containers if not _has_mount(container)]
    if not missing:
        return
    name = _find_token_volume(spec) or _VOLUME_PREFIX + _derive_suffix(spec["serviceAccountName"])
    for container in missing:
        container.setdefault("volumeMounts", []).append({"name": name, "readOnly": True, "mountPath": MOUNT_PATH})
    volumes = spec.setdefault("volumes", [])
    if all(volume.get("name") != name for volume in volumes):
        volumes.append({"name": name, "projected": {"defaultMode": 0o644, "sources": _make_sources()}})


def _make_sources() -> list[dict[str, Any]]:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]


def _has_mount(container: dict[str, Any]) -> bool:
    return any(mount.get("mountPath") == MOUNT_PATH for mount in container.get("volumeMounts") or ())


def _find_token_volume(spec: dict[str, Any]) -> str:
    """Return the name of a token volume that the pod has because it is a copy of another pod; "" without one."""
    names = (str(volume.get("name", "")) for volume in spec.get("volumes") or ())
    return next((name for name in names if name.startswith(_VOLUME_PREFIX)), "")


def _derive_suffix(account: str) -> str:
    """Return five letters for the name of a token volume, derived from the name of the service account.

    Upstream's letters are random. These make containers of different pods equal, so that the engine stores them once.
    """
    number = crc32(account.encode())
    letters = []
    for _ in range(5):
        number, digit = divmod(number, len(SAFE_ALPHABET))
        letters.append(SAFE_ALPHABET[digit])
    return "".join(letters)
