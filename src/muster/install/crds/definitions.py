"""Make CustomResourceDefinitions from the table of the kinds that `muster up` serves."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from muster.api.server.admissionregistration import WebhookClientConfig
from muster.api.server.apiextensions import CLUSTER, NAMESPACED, NO_CONVERSION, WEBHOOK_CONVERSION
from muster.cluster.apiserver.registry.jobset import JOB_SETS
from muster.cluster.apiserver.registry.kueue import KUEUE
from muster.cluster.apiserver.registry.podgroups import POD_GROUPS
from muster.cluster.apiserver.registry.resources import Resource
from muster.install.crds.columns import make_columns
from muster.install.crds.structure import make_schema

Document = dict[str, Any]

# API groups under `k8s.io` need an annotation that names the approval of their kinds; these are older than that rule.
_APPROVAL = {"api-approved.kubernetes.io": "unapproved, older than the rule"}
_PROTECTED = (".k8s.io", ".kubernetes.io")


# The families that may be installed separately, because other programs bring some of the kinds.
FAMILIES: Final[Mapping[str, Sequence[Resource]]] = {
    "kueue": KUEUE,
    "jobset": (JOB_SETS,),
    "podgroups": POD_GROUPS,
}


def make_definitions(
    conversion: WebhookClientConfig | None = None, families: Collection[str] = tuple(FAMILIES)
) -> list[Document]:
    """Return the CustomResourceDefinitions to install, sorted by name.

    conversion: the webhook that converts Kueue's kinds. Without it v1beta1 is not served, because the API server would
    then change only an object's apiVersion, and fields with other names in v1beta1 would be lost.
    families: the groups of kinds whose definitions are returned.
    """
    selected = [resource for family, resources in FAMILIES.items() if family in families for resource in resources]
    return [_make_definition(versions, conversion) for versions in _group_by_kind(selected)]


def served_definitions() -> list[Document]:
    """Return the definitions as the embedded server shows them: all versions, which it converts without a webhook."""
    resources = [resource for family in FAMILIES.values() for resource in family]
    return [_make_definition(versions, None, converts=True) for versions in _group_by_kind(resources)]


def _group_by_kind(resources: Iterable[Resource]) -> Iterator[Sequence[Resource]]:
    for _, versions in groupby(sorted(resources, key=_make_name), key=_make_name):
        yield list(versions)


def _make_name(resource: Resource) -> str:
    return resource.kind.resource


def _make_definition(
    versions: Sequence[Resource], conversion: WebhookClientConfig | None, *, converts: bool = False
) -> Document:
    """Return the definition of a kind from its versions, the stored one first.

    converts: the server converts by itself, without a webhook.
    """
    first = versions[0]
    kind, webhook = first.kind, conversion if len(versions) > 1 else None
    converts = converts or webhook is not None
    metadata: Document = {"name": kind.resource}
    if kind.group.endswith(_PROTECTED):
        metadata["annotations"] = dict(_APPROVAL)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": kind.group,
            "names": _make_names(first),
            "scope": NAMESPACED if kind.namespaced else CLUSTER,
            "conversion": _make_conversion(webhook) if webhook is not None else {"strategy": NO_CONVERSION},
            "versions": [_make_version(version, served=version is first or converts) for version in versions],
        },
    }


def _make_names(resource: Resource) -> Document:
    names: Document = {
        "kind": resource.kind.kind,
        "listKind": resource.kind_of_lists,
        "plural": resource.kind.plural,
        "singular": resource.singular,
    }
    return names | _drop_empty(shortNames=resource.short_names, categories=resource.categories)


def _make_version(resource: Resource, *, served: bool) -> Document:
    stored = resource.kind == resource.stored
    has_status = any(each.name == "status" for each in resource.subresources)
    result: Document = {"name": resource.kind.version, "served": served, "storage": stored}
    if resource.deprecation:
        result |= {"deprecated": True, "deprecationWarning": resource.deprecation}
    result["schema"] = {"openAPIV3Schema": make_schema(resource.kind)}
    result["subresources"] = {"status": {}} if has_status else {}
    return result | _drop_empty(
        additionalPrinterColumns=make_columns(resource.kind),
        selectableFields=[{"jsonPath": f".{name}"} for name in resource.fields.fields],
    )


def _make_conversion(webhook: WebhookClientConfig | None) -> Document:
    called = {"clientConfig": msgspec.to_builtins(webhook), "conversionReviewVersions": ["v1"]}
    return {"strategy": WEBHOOK_CONVERSION, "webhook": called}


def _drop_empty(**members: Iterable[Any]) -> Document:
    """Return the keyword arguments that are not empty, each as a list."""
    return {name: members_left for name, value in members.items() if (members_left := list(value))}
