"""Defaults of a pod's volumes."""

from typing import Any

from muster.api.defaults.resources import default_quantity, default_requirements

Json = dict[str, Any]

_MODE = 0o644
_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
_ONE_HOUR = 3600


def default_volume(volume: Json) -> None:
    """One volume; without any source it is an empty directory."""
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for source in _WITH_MODE:
        if source in volume:
            volume[source].setdefault("defaultMode", _MODE)
    if "emptyDir" in volume:
        default_quantity(volume["emptyDir"], "sizeLimit")
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for file in volume.get("downwardAPI", {}).get("items", ()):
        _default_file(file)
    for source in volume.get("projected", {}).get("sources", ()):
        for file in source.get("downwardAPI", {}).get("items", ()):
            _default_file(file)
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", _ONE_HOUR)
    claim = volume.get("ephemeral", {}).get("volumeClaimTemplate", {}).get("spec")
    if claim is not None:
        claim.setdefault("volumeMode", "Filesystem")
        default_requirements(claim.setdefault("resources", {}))


def default_field_ref(parent: Json) -> None:
    """The version in which a field's path is meant."""
    reference = parent.get("fieldRef")
    if reference is not None and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"


def default_resource_field_ref(parent: Json) -> None:
    """The unit; "0" is how the API server writes that none was chosen, which means 1."""
    reference = parent.get("resourceFieldRef")
    if reference is not None:
        reference.setdefault("divisor", "0")
        default_quantity(reference, "divisor")


def _default_file(file: Json) -> None:
    default_field_ref(file)
    default_resource_field_ref(file)
