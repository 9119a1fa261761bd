"""`apiextensions.k8s.io/v1`: CustomResourceDefinitions, by which users bring kinds of their own."""

from typing import Annotated, Any

from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, Int32, Required, Strings, map_by, one_of
from muster.api.meta import ObjectMeta, Struct
from muster.api.server.admissionregistration import WebhookClientConfig

# Holds a deleted definition until the last object of its kind has gone.
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

ESTABLISHED = "Established"
NAMES_ACCEPTED = "NamesAccepted"
TERMINATING = "Terminating"

NAMESPACED = "Namespaced"
CLUSTER = "Cluster"

NO_CONVERSION = "None"
WEBHOOK_CONVERSION = "Webhook"


class CustomResourceDefinitionNames(Struct):
    """What a kind is called.

    plural: name of the resource in paths; the definition is called by it and the group.
    singular: what kubectl also calls it; the kind in small letters if not given.
    short_names: shorter names for kubectl.
    kind: name of the kind, in CamelCase.
    list_kind: name of the kind of its lists; the kind and `List` if not given.
    categories: groups of resources that it belongs to (`all`).
    """

    plural: Required[str] = ""
    singular: str = ""
    short_names: Strings = ()
    kind: Required[str] = ""
    list_kind: str = ""
    categories: Strings = ()


class CustomResourceValidation(Struct):
    """What objects of a version look like.

    open_api_v3_schema: the OpenAPI v3 schema that objects are pruned, filled in and checked by.
    """

    open_api_v3_schema: dict[str, Any] | None = None


class CustomResourceSubresourceScale(Struct):
    """How an object is seen as a number of replicas.

    spec_replicas_path: where in the object it stands how many are wanted, below `.spec`.
    status_replicas_path: where it stands how many there are, below `.status`.
    label_selector_path: where the text of the selector of its pods stands, below `.status` or `.spec`.
    """

    spec_replicas_path: Required[str] = ""
    status_replicas_path: Required[str] = ""
    label_selector_path: str | None = None


class CustomResourceSubresources(Struct):
    """The subresources of a version.

    status: whether the status is written by itself; an empty object if so.
    scale: how objects are scaled.
    """

    status: dict[str, Any] | None = None
    scale: CustomResourceSubresourceScale | None = None


class CustomResourceColumnDefinition(Struct):
    """A column of `kubectl get`.

    name: head of the column.
    type: what the cells are: integer, number, string, boolean or date.
    format: OpenAPI format of the cells.
    description: what the column says.
    priority: 0 for columns that are always shown, more for those of the wide form.
    json_path: where in the object the cell stands.
    """

    name: Required[str] = ""
    type: Required[str] = ""
    format: str = ""
    description: str = ""
    priority: Int32 = 0
    json_path: Required[str] = ""


class SelectableField(Struct):
    """A field that objects can be selected by.

    json_path: where in the object it stands.
    """

    json_path: Required[str] = ""


class CustomResourceDefinitionVersion(Struct):
    """One version of a kind.

    name: name of the version.
    served: whether the API serves it.
    storage: whether objects are stored in it; true of exactly one.
    deprecated: whether every answer warns of its age.
    deprecation_warning: what the warning says.
    schema: what objects look like.
    subresources: what is written or seen by itself.
    additional_printer_columns: columns of `kubectl get`; the age if there are none.
    selectable_fields: fields for field selectors.
    """

    name: Required[str] = ""
    served: Required[bool] = False
    storage: Required[bool] = False
    deprecated: bool = False
    deprecation_warning: str | None = None
    schema: CustomResourceValidation | None = None
    subresources: CustomResourceSubresources | None = None
    additional_printer_columns: Annotated[tuple[CustomResourceColumnDefinition, ...], ATOMIC] = ()
    selectable_fields: Annotated[tuple[SelectableField, ...], ATOMIC] = ()


class WebhookConversion(Struct):
    """A webhook that converts objects.

    client_config: where it is.
    conversion_review_versions: versions of ConversionReview that it understands, the preferred one first.
    """

    client_config: WebhookClientConfig | None = None
    conversion_review_versions: Required[Strings] = ()


class CustomResourceConversion(Struct):
    """How objects of one version become objects of another.

    strategy: None (only apiVersion changes) or Webhook.
    webhook: for Webhook, how it is called.
    """

    strategy: Annotated[Required[str], one_of(NO_CONVERSION, WEBHOOK_CONVERSION)] = ""
    webhook: WebhookConversion | None = None


class CustomResourceDefinitionSpec(Struct):
    """What the kind is.

    group: API group of the kind.
    names: what it is called.
    scope: Cluster or Namespaced.
    versions: its versions.
    conversion: how its versions become each other.
    preserve_unknown_fields: deprecated; whether fields that no schema names are kept.
    """

    group: Required[str] = ""
    names: CustomResourceDefinitionNames = CustomResourceDefinitionNames()
    scope: Annotated[Required[str], one_of(CLUSTER, NAMESPACED)] = ""
    versions: Annotated[tuple[CustomResourceDefinitionVersion, ...], ATOMIC] = ()
    conversion: CustomResourceConversion | None = None
    preserve_unknown_fields: bool = False


class CustomResourceDefinitionCondition(Struct):
    """One observed aspect of a definition.

    type: Established, NamesAccepted, NonStructuralSchema or Terminating.
    status: True, False or Unknown.
    last_transition_time: when the status last changed.
    reason: one word for the status, in CamelCase.
    message: a sentence for people.
    """

    type: Required[str] = ""
    status: Required[str] = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class CustomResourceDefinitionStatus(Struct):
    """What has become of a definition.

    conditions: whether its names are accepted and whether it is served.
    accepted_names: the names that are served.
    stored_versions: the versions in which objects may still be stored.
    """

    conditions: Annotated[tuple[CustomResourceDefinitionCondition, ...], map_by("type")] = ()
    accepted_names: CustomResourceDefinitionNames | None = None
    stored_versions: Strings = ()


class CustomResourceDefinition(Struct):
    """A kind that users have brought.

    metadata: its name is that of the resource and the group (`widgets.example.com`).
    spec: what the kind is.
    status: what has become of it.
    """

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
    """The version in which new objects are stored."""
    return next((version for version in definition.spec.versions if version.storage), None)
