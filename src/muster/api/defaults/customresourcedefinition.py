"""What is filled in in CustomResourceDefinitions (k8s.io/apiextensions-apiserver, defaults.go)."""

from typing import Any

HTTPS_PORT = 443


def default_custom_resource_definition(definition: dict[str, Any]) -> None:
    """Names follow from the kind, and versions are converted by their name alone."""
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}
    service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service:
        service.setdefault("port", HTTPS_PORT)
