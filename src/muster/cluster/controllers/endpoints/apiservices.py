"""Keep an APIService for each group version that this server serves, as kube-apiserver does.

The APIServices are local and available. Clients read from them which groups exist, and wait until a group is available.
Discovery does not depend on them.
"""

import re
from typing import Any

from muster.api.server.apiregistration import API_SERVICE, APIService
from muster.cluster.apiserver.registry.resources import Registry
from muster.cluster.controllers.lifetimes.customkinds import Definition, follow_definitions
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.refusals import ignoring

MANAGED = "kube-aggregator.kubernetes.io/automanaged"
_AVAILABLE = {
    "type": "Available",
    "status": "True",
    "reason": "Local",
    "message": "Local APIServices are always available",
}
# The priority of each of upstream's own groups: k8s.io/kubernetes (pkg/controlplane/apiserver).
_GROUPS = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "admissionregistration.k8s.io": 16700,
    "apiextensions.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "resource.k8s.io": 15900,
}
_STABLE = re.compile(r"v([0-9]+)", re.ASCII)
_REGISTRATION = API_SERVICE.group  # upstream's aggregator does not list itself


class ApiServices(Reconciler):
    """The controller that keeps an APIService for each group version that this server serves.

    A `Manager` runs it; its keys are APIServices.
    """

    name = "autoregister"

    def __init__(self, manager: Manager, registry: Registry) -> None:
        super().__init__(manager, workers=8)
        self._registry = registry
        self._services = manager.informer(API_SERVICE)
        self._controller.watch(self._services)
        follow_definitions(manager).on_change(self._on_definition_changed)

    async def run(self) -> None:
        """Queue the APIServices of all served group versions, then work until `stop`."""
        for name in self._list_served():
            self._controller.queue.add(name)
        await super().run()

    def _list_served(self) -> dict[str, tuple[str, str]]:
        """Return the groups and versions that are served, by the names of their APIServices."""
        kinds = (resource.kind for resource in self._registry)
        return {f"{k.version}.{k.group}": (k.group, k.version) for k in kinds if k.group != _REGISTRATION}

    def _on_definition_changed(self, old: Definition | None, new: Definition | None) -> None:
        for one in (old, new):
            for version in one.spec.versions if one is not None else ():
                assert one is not None
                self._controller.queue.add(f"{version.name}.{one.spec.group}")

    async def _reconcile(self, name: str) -> Result:
        served, present = self._list_served().get(name), self._services.get(name)
        with ignoring("NotFound", "AlreadyExists", "Conflict"):  # gone, or changed, which calls this again
            if present is None:
                if served is not None:
                    await self._client.create(API_SERVICE.seen_as(dict), api_service(*served))
            elif present.spec.service is not None:
                return None  # another server serves this version, according to the user who wrote the APIService
            elif served is None:
                if MANAGED in present.metadata.labels:
                    await self._client.delete_object(API_SERVICE, present)
            elif not _is_available(present):
                await self._make_available(name)
        return None

    async def _make_available(self, name: str) -> None:
        condition = _AVAILABLE | {"lastTransitionTime": self._clock.now()}
        await self._client.patch(API_SERVICE, name, {"status": {"conditions": [condition]}}, subresource="status")


def api_service(group: str, version: str) -> dict[str, Any]:
    """Return the APIService of a group version that this server serves itself."""
    ours = group in _GROUPS
    priorities = (_GROUPS[group], _compute_version_priority(group, version)) if ours else (1000, 100)
    return {
        "metadata": {"name": f"{version}.{group}", "labels": {MANAGED: "onstart" if ours else "true"}},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": priorities[0],
            "versionPriority": priorities[1],
        },
    }


def _compute_version_priority(group: str, version: str) -> int:
    """Return upstream's priority of a version: newer versions come first, and stable versions before others."""
    stable = _STABLE.fullmatch(version)
    return 1 if not group else 15 * int(stable[1]) if stable else 9


def _is_available(service: APIService) -> bool:
    return any((c.type, c.status) == ("Available", "True") for c in service.status.conditions)
