"""Build the discovery documents, by which clients learn the served resources.

`/api` and `/apis` return the form that the Accept header prefers. The aggregated form is one document with all groups
and resources: an `APIGroupDiscoveryList` of `apidiscovery.k8s.io/v2` or `v2beta1`. The older form is a list of groups,
with a separate document for each group version.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

from muster.api.status import not_acceptable
from muster.cluster.apiserver.registry.resources import Resource
from muster.cluster.apiserver.static import JSON, StaticAnswer, parse_accept, static_answer

_AGGREGATED = ("v2", "v2beta1")
# Clients resolve a name that several groups share to the first group, so no user's definition may come before
# `deployments`. Kubernetes' own groups come first, in the order of kube-apiserver. Kueue, JobSet and Volcano's Jobs
# come before scheduling.k8s.io, which has Workloads too. The PodGroups of other projects come after Kubernetes' own.
_FIRST = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "kueue.x-k8s.io",
    "jobset.x-k8s.io",
    "batch.volcano.sh",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "incubator.scheduling.k8s.io",
    "scheduling.x-k8s.io",
    "scheduling.volcano.sh",
    "scheduling.sigs.dev",
    "scheduling.incubator.k8s.io",
)
_RANK = {group: rank for rank, group in enumerate(_FIRST)}
_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?", re.ASCII)


class Discovery:
    """The discovery documents of a set of resources."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._resources = sorted(resources, key=_make_order_key)

    def find(self, path: str, accept: str = "") -> StaticAnswer | None:
        """Return the document at a path; None if there is none.

        Raises `ApiError` (406) for an unsupported Accept header.
        """
        path = path.rstrip("/")
        if path not in self._plain:
            return None
        for media_type, parameters in parse_accept(accept):
            if media_type not in (JSON, "application/*", "*/*"):
                continue
            if "as" not in parameters:
                return self._plain[path]
            answer = self._aggregated.get((path, _read_aggregated_version(parameters)))
            if answer is not None:
                return answer
        raise not_acceptable()

    @cached_property
    def _groups(self) -> dict[str, dict[str, list[Resource]]]:
        """The resources by group and version."""
        return {
            group: {version: list(members) for version, members in groupby(of_group, lambda r: r.kind.version)}
            for group, of_group in groupby(self._resources, lambda r: r.kind.group)
        }

    @cached_property
    def _plain(self) -> dict[str, StaticAnswer]:
        named = {group: versions for group, versions in self._groups.items() if group}
        core = list(self._groups.get("", {}))
        groups = [_make_group(group, list(versions)) for group, versions in named.items()]
        documents = {
            "/api": {"kind": "APIVersions", "versions": core, "serverAddressByClientCIDRs": []},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
        }
        for group in groups:
            documents[f"/apis/{group['name']}"] = {"kind": "APIGroup", "apiVersion": "v1"} | group
        for group_name, versions in self._groups.items():
            for version, resources in versions.items():
                documents[_make_path(group_name, version)] = _make_resource_list(resources)
        return {path: static_answer(document) for path, document in documents.items()}

    @cached_property
    def _aggregated(self) -> dict[tuple[str, str], StaticAnswer]:
        named = [_make_aggregated_group(group, versions) for group, versions in self._groups.items() if group]
        core = [_make_aggregated_group(group, versions) for group, versions in self._groups.items() if not group]
        return {
            (path, version): static_answer(
                {
                    "kind": "APIGroupDiscoveryList",
                    "apiVersion": f"apidiscovery.k8s.io/{version}",
                    "metadata": {},
                    "items": items,
                },
                f"{JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList",
            )
            for version in _AGGREGATED
            for path, items in (("/api", core), ("/apis", named))
        }


def _make_order_key(resource: Resource) -> tuple[int, str, tuple[int, int, int, str], str]:
    kind = resource.kind
    return _RANK.get(kind.group, len(_FIRST)), kind.group, make_version_key(kind.version), kind.plural


def make_version_key(version: str) -> tuple[int, int, int, str]:
    """Return the key that sorts the versions of a group: stable before beta before alpha, newer before older."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 3, 0, 0, version
    major, stage, minor = match.groups()
    return (None, "beta", "alpha").index(stage), -int(major), -int(minor or 0), version


def _read_aggregated_version(parameters: dict[str, str]) -> str:
    if parameters.get("g") == "apidiscovery.k8s.io" and parameters["as"] == "APIGroupDiscoveryList":
        return parameters.get("v", "")
    return ""


def _make_path(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _make_group(group: str, versions: Sequence[str]) -> dict[str, Any]:
    named = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": named, "preferredVersion": named[0]}


def _make_resource_list(resources: Sequence[Resource]) -> dict[str, Any]:
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": resources[0].kind.api_version,
        "resources": [entry for resource in resources for entry in _make_entries(resource)],
    }


def _make_entries(resource: Resource) -> list[dict[str, Any]]:
    """Return the entries of an APIResourceList for a resource and its subresources."""
    kind = resource.kind
    main: dict[str, Any] = {
        "name": kind.plural,
        "singularName": resource.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": resource.verbs,
    }
    if resource.short_names:
        main["shortNames"] = resource.short_names
    if resource.categories:
        main["categories"] = resource.categories
    subresources = [
        {"name": f"{kind.plural}/{sub.name}", "singularName": "", "namespaced": kind.namespaced}
        | ({} if sub.kind.api_version == kind.api_version else {"group": sub.kind.group, "version": sub.kind.version})
        | {"kind": sub.kind.kind, "verbs": sub.verbs}
        for sub in sorted(resource.subresources, key=lambda sub: sub.name)
    ]
    return [main, *subresources]


def _make_aggregated_group(group: str, versions: dict[str, list[Resource]]) -> dict[str, Any]:
    return {
        "metadata": {"name": group} if group else {},
        "versions": [
            {
                "version": version,
                "resources": [_make_aggregated_resource(resource) for resource in resources],
                "freshness": "Current",
            }
            for version, resources in versions.items()
        ],
    }


def _make_aggregated_resource(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.kind.plural,
        "responseKind": resource.kind.names,
        "scope": "Namespaced" if resource.kind.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    }
    if resource.short_names:
        entry["shortNames"] = resource.short_names
    if resource.categories:
        entry["categories"] = resource.categories
    if resource.subresources:
        entry["subresources"] = [
            {"subresource": sub.name, "responseKind": sub.kind.names, "verbs": sub.verbs}
            for sub in sorted(resource.subresources, key=lambda sub: sub.name)
        ]
    return entry
