"""Write the documents for certificates by cert-manager: an Issuer, a Certificate, and injection annotations.

The Configuration then contains `internalCertManagement.enable: false`, and the engine only reads the Secret.
"""

from typing import Final

from muster.api.kinds import Kind
from muster.install.options import Json, Options, make_metadata
from muster.webhooks.endpoints import VISIBILITY_SERVICE

ISSUER: Final = Kind("cert-manager.io", "v1", "Issuer", "issuers", dict)
CERTIFICATE: Final = Kind("cert-manager.io", "v1", "Certificate", "certificates", dict)

_ISSUER: Final = "muster-selfsigned-issuer"
_CERTIFICATE: Final = "muster-serving-cert"
_INJECTED: Final = "cert-manager.io/inject-ca-from"


def certificate_documents(options: Options) -> list[Json]:
    """Return the Issuer and the Certificate of the engine's HTTPS endpoints.

    The list is empty if the engine has no such endpoint. cert-manager writes the Secret that the engine serves with.
    """
    managed = options.settings.internal_cert_management
    services = [managed.webhook_service_name] if options.webhooks else []
    services += [VISIBILITY_SERVICE] if options.visibility else []
    hosts = [f"{each}.{options.namespace}.svc{domain}" for each in services for domain in ("", ".cluster.local")]
    if not hosts:
        return []
    issuer = _make_head(ISSUER, _ISSUER, options)
    certificate = _make_head(CERTIFICATE, _CERTIFICATE, options)
    spec = {
        "secretName": managed.webhook_secret_name,
        "dnsNames": hosts,
        "issuerRef": {"kind": ISSUER.kind, "name": _ISSUER},
    }
    return [issuer | {"spec": {"selfSigned": {}}}, certificate | {"spec": spec}]


def inject(document: Json, options: Options) -> Json:
    """Return a document with the annotation that makes cert-manager inject its authority, if the document needs it.

    Webhook configurations, APIServices, and definitions whose objects are converted need it. Without cert-manager in
    the options, no document does.
    """
    if not options.cert_manager or not _is_asked(document):
        return document
    meta = document["metadata"]
    named = {_INJECTED: f"{options.namespace}/{_CERTIFICATE}"}
    return document | {"metadata": meta | {"annotations": (meta.get("annotations") or {}) | named}}


def _make_head(kind: Kind[Json], name: str, options: Options) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": make_metadata(name, options.namespace)}


def _is_asked(document: Json) -> bool:
    if document["kind"] == "CustomResourceDefinition":
        strategy: str = document["spec"]["conversion"]["strategy"]
        return strategy == "Webhook"
    return document["kind"] in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "APIService")
