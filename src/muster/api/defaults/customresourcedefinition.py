"""The defaults of CustomResourceDefinitions (k8s.io/apiextensions-apiserver, defaults.go)."""

from typing import Any

HTTPS_PORT = 443


def default_custom_resource_definition(definition: dict[str, Any]) -> None:
    """Set the defaults of a CustomResourceDefinition: names from the kind, conversion None, a stored version."""
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}
    status = definition.get("status")
    if status and not status.get("storedVersions"):
        versions = spec.get("versions") or ()
        status["storedVersions"] = [version["name"] for version in versions if version.get("storage")]
    service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service:
        service.setdefault("port", HTTPS_PORT)
