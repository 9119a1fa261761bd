"""`apiextensions.k8s.io/v1`: CustomResourceDefinitions, with which users define kinds."""

from typing import Any

from muster.api.kinds import Kind
from muster.api.markers import Int32, Required
from muster.api.meta import ObjectMeta, Struct
from muster.api.server.admissionregistration import WebhookClientConfig

# The finalizer that keeps a deleted definition until the last object of its kind is deleted.
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

ESTABLISHED = "Established"
NAMES_ACCEPTED = "NamesAccepted"
TERMINATING = "Terminating"

NAMESPACED = "Namespaced"
CLUSTER = "Cluster"

NO_CONVERSION = "None"
WEBHOOK_CONVERSION = "Webhook"


class CustomResourceDefinitionNames(Struct):
    """The names of a kind."""

    plural: Required[str] = ""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    kind: Required[str] = ""
    list_kind: str = ""
    categories: tuple[str, ...] = ()


class CustomResourceValidation(Struct):
    """The schema of the objects of a version."""

    open_api_v3_schema: dict[str, Any] | None = None


class CustomResourceSubresourceScale(Struct):
    """The paths of the replicas in an object, for its scale subresource."""

    spec_replicas_path: Required[str] = ""
    status_replicas_path: Required[str] = ""
    label_selector_path: str | None = None


class CustomResourceSubresources(Struct):
    """The subresources of a version."""

    status: dict[str, Any] | None = None
    scale: CustomResourceSubresourceScale | None = None


class CustomResourceColumnDefinition(Struct):
    """A column of `kubectl get`."""

    name: Required[str] = ""
    type: Required[str] = ""
    format: str = ""
    description: str = ""
    priority: Int32 = 0
    json_path: Required[str] = ""


class SelectableField(Struct):
    """A field by which clients can select objects."""

    json_path: Required[str] = ""


class CustomResourceDefinitionVersion(Struct):
    """One version of a kind."""

    name: Required[str] = ""
    served: Required[bool] = False
    storage: Required[bool] = False
    deprecated: bool = False
    deprecation_warning: str | None = None
    schema: CustomResourceValidation | None = None
    subresources: CustomResourceSubresources | None = None
    additional_printer_columns: tuple[CustomResourceColumnDefinition, ...] = ()
    selectable_fields: tuple[SelectableField, ...] = ()


class WebhookConversion(Struct):
    """A webhook that converts objects."""

    client_config: WebhookClientConfig | None = None
    conversion_review_versions: Required[tuple[str, ...]] = ()


class CustomResourceConversion(Struct):
    """The conversion of objects between versions."""

    strategy: Required[str] = ""
    webhook: WebhookConversion | None = None


class CustomResourceDefinitionSpec(Struct):
    """The desired state of a definition: names, scope and versions of the kind."""

    group: Required[str] = ""
    names: CustomResourceDefinitionNames = CustomResourceDefinitionNames()
    scope: Required[str] = ""
    versions: tuple[CustomResourceDefinitionVersion, ...] = ()
    conversion: CustomResourceConversion | None = None
    preserve_unknown_fields: bool = False


class CustomResourceDefinitionCondition(Struct):
    """One observed aspect of a definition."""

    type: Required[str] = ""
    status: Required[str] = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class CustomResourceDefinitionStatus(Struct):
    """The observed state of a definition."""

    conditions: tuple[CustomResourceDefinitionCondition, ...] = ()
    accepted_names: CustomResourceDefinitionNames | None = None
    stored_versions: tuple[str, ...] = ()


class CustomResourceDefinition(Struct):
    """The definition of a kind by users."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CustomResourceDefinitionSpec = CustomResourceDefinitionSpec()
    status: CustomResourceDefinitionStatus = CustomResourceDefinitionStatus()


CUSTOM_RESOURCE_DEFINITION = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    CustomResourceDefinition,
    namespaced=False,
)


def storage_version(definition: CustomResourceDefinition) -> CustomResourceDefinitionVersion | None:
    """Return the version in which new objects are stored; None if no version is."""
    return next((version for version in definition.spec.versions if version.storage), None)
