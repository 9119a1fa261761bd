"""Provide service accounts with the authority's certificate, and token Secrets with their tokens.

A Secret of type `kubernetes.io/service-account-token` that names an account gets a token of that account. The token is
valid as long as the Secret and the account exist. (Pods get better tokens, which expire: see `apiserver/access`.)
"""

import base64
from typing import Any

from muster.api.core import (
    CONFIG_MAP,
    NAMESPACE,
    SECRET,
    SERVICE_ACCOUNT,
    ConfigMap,
    Namespace,
    Secret,
    ServiceAccount,
)
from muster.api.meta import ObjectMeta
from muster.cluster.apiserver.access.jwt import SigningKey
from muster.cluster.apiserver.access.podaccounts import ROOT_CA
from muster.cluster.apiserver.access.tokens import BoundReference, legacy_claims
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import key_of
from muster.runtime.refusals import ignoring

TOKEN_SECRET = "kubernetes.io/service-account-token"  # noqa: S105  (a type of secrets)
# The ConfigMap that aggregated API servers read, by its name in k8s.io/apiserver.
CLIENT_CA = "extension-apiserver-authentication"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"
_DESCRIPTION = "kubernetes.io/description"
_ABOUT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class CertificatePublisher(Reconciler):
    """The publisher of the authority's certificate in ConfigMaps. A `Manager` runs it; its keys are the ConfigMaps'.

    Each namespace has such a ConfigMap for its pods. A ConfigMap in `kube-system` serves other API servers that accept
    this server's clients.
    """

    name = "root-ca-certificate-publisher-controller"

    def __init__(self, manager: Manager, authority_pem: bytes) -> None:
        super().__init__(manager)
        self._pem = authority_pem.decode()
        self._namespaces = manager.informer(NAMESPACE)
        # The informers hold no other ConfigMaps and Secrets, which may be large.
        names = (ROOT_CA, CLIENT_CA)
        self._maps = {name: manager.informer(CONFIG_MAP, fields=f"metadata.name={name}") for name in names}
        self._namespaces.on_change(self._on_namespace_changed)
        for maps in self._maps.values():
            maps.on_change(self._on_map_changed)

    def _on_namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is None and new is not None:
            for name in self._make_wanted_maps(new.metadata.name):
                self._controller.queue.add(f"{new.metadata.name}/{name}")

    def _on_map_changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        changed = new or old
        if changed is not None and changed.metadata.name in self._make_wanted_maps(changed.metadata.namespace):
            self._controller.queue.add(key_of(changed))

    def _make_wanted_maps(self, namespace: str) -> dict[str, ConfigMap]:
        """Return the ConfigMaps that a namespace should have, by name."""
        root = ConfigMap(
            metadata=ObjectMeta(name=ROOT_CA, annotations={_DESCRIPTION: _ABOUT}), data={"ca.crt": self._pem}
        )
        # No proxy in front of this server authenticates clients, so the map names no headers of one.
        clients = ConfigMap(metadata=ObjectMeta(name=CLIENT_CA), data={"client-ca-file": self._pem})
        return {one.metadata.name: one for one in ((root, clients) if namespace == "kube-system" else (root,))}

    async def _reconcile(self, key: str) -> Result:
        where, _, name = key.partition("/")
        namespace = self._namespaces.get(where)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return None
        present, wanted = self._maps[name].get(key), self._make_wanted_maps(where)[name]
        with ignoring("AlreadyExists", "Forbidden", "NotFound"):  # or the namespace is going
            if present is None:
                await self._client.create(CONFIG_MAP, wanted, where)
            elif not wanted.data.items() <= present.data.items():
                await self._client.patch(CONFIG_MAP, name, {"data": wanted.data}, where)
        return None


class TokenSecrets(Reconciler):
    """The controller that fills Secrets with service account tokens, and deletes the Secrets of deleted accounts.

    A `Manager` runs it; its keys are Secrets of type `kubernetes.io/service-account-token`.
    """

    name = "tokens-controller"

    def __init__(self, manager: Manager, key: SigningKey, authority_pem: bytes) -> None:
        super().__init__(manager)
        self._key = key
        self._authority_pem = authority_pem
        self._secrets = manager.informer(SECRET, fields=f"type={TOKEN_SECRET}")
        self._accounts = manager.informer(SERVICE_ACCOUNT)
        self._controller.watch(self._secrets, when=_is_token_secret)
        self._accounts.on_change(self._on_account_changed)

    def _on_account_changed(self, old: ServiceAccount | None, new: ServiceAccount | None) -> None:
        """Queue the token Secrets of an account that was created or deleted."""
        account = new or old
        if account is None or (old is not None and new is not None and old.metadata.uid == new.metadata.uid):
            return
        meta = account.metadata
        for secret in self._secrets.all():
            if secret.metadata.namespace == meta.namespace and _find_account_name(secret) == meta.name:
                self._controller.queue.add(key_of(secret))

    async def _reconcile(self, key: str) -> Result:
        secret = self._secrets.get(key)
        if secret is None or secret.metadata.deletion_timestamp is not None or not _find_account_name(secret):
            return None
        meta = secret.metadata
        account = self._accounts.get(f"{meta.namespace}/{_find_account_name(secret)}")
        wanted_uid = meta.annotations.get(ACCOUNT_UID, "")
        with ignoring("NotFound", "Conflict"):  # gone, or changed, which calls this again
            if account is None or wanted_uid not in ("", account.metadata.uid):
                if wanted_uid:  # the secret's account existed, and is gone
                    await self._client.delete_object(SECRET, secret)
                return None
            if patch := self._make_missing_patch(secret, account):
                await self._client.patch_object(SECRET, secret, patch)
        return None

    def _make_missing_patch(self, secret: Secret, account: ServiceAccount) -> dict[str, Any]:
        """Return the patch that adds the missing data to a token Secret; {} if nothing is missing."""
        meta, data = secret.metadata, secret.data
        wanted = {"ca.crt": self._authority_pem, "namespace": meta.namespace.encode()}
        if not data.get("token"):
            reference = BoundReference("ServiceAccount", account.metadata.name, account.metadata.uid)
            wanted["token"] = self._key.sign(legacy_claims(meta.namespace, reference, meta.name)).encode()
        lacking = {name: base64.b64encode(value).decode() for name, value in wanted.items() if data.get(name) != value}
        if not lacking and meta.annotations.get(ACCOUNT_UID):
            return {}
        return {"metadata": {"annotations": {ACCOUNT_UID: account.metadata.uid}}, "data": lacking}


def _is_token_secret(old: Secret | None, new: Secret | None) -> bool:
    secret = new or old
    return secret is not None and secret.type == TOKEN_SECRET


def _find_account_name(secret: Secret) -> str:
    """Return the name of the account that a token Secret belongs to; "" for any other Secret."""
    return secret.metadata.annotations.get(ACCOUNT_NAME, "") if secret.type == TOKEN_SECRET else ""
