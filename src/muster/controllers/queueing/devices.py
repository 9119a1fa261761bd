"""Watch the ResourceClaimTemplates, DeviceClasses and devices that determine how many devices workloads count.

`queueing.devices` counts them. A workload whose template, class or devices are missing waits, and is placed again when
they appear.
"""

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from muster.api.config import Configuration
from muster.api.groups.resource import (
    DEVICE_CLASS,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    DeviceClass,
    ResourceClaimTemplate,
)
from muster.api.kueue import WORKLOAD, Workload
from muster.api.pods import pod_requests
from muster.gang.nodes.devices import Matcher
from muster.queueing.devicefleet import Fleet, RememberedMatches
from muster.queueing.devices import (
    NO_DEVICES,
    DeviceCount,
    DeviceRules,
    claims_devices,
    class_by_extended_resource,
    count_devices,
)
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import ignores_status, key_of

# A callback with a predicate that selects the workloads whose device count changed.
Changed: TypeAlias = Callable[[Callable[[Workload], bool]], None]

_BY_TEMPLATE: Final = "resourceclaimtemplate"

# Drivers publish a slice for each node. All slices within this time cause one review.
REVIEW_SECONDS: Final = 1.0
_ALL: Final = "devices"


class ClaimedDevices:
    """The device counts of workloads, by the current ResourceClaimTemplates, DeviceClasses and ResourceSlices.

    changed: called with a predicate that selects the workloads whose count may have changed.
    read_again: called with the key of a workload whose ResourceClaimTemplate changed.
    matches: returns whether a device matches an expression; None to ignore devices.
    """

    def __init__(
        self,
        manager: Manager,
        configuration: Configuration,
        changed: Changed,
        read_again: Callable[[str], None],
        matches: Matcher | None = None,
    ) -> None:
        self._rules = DeviceRules.of(configuration)
        self._changed = changed
        self._read_again = read_again
        self._matches = RememberedMatches(matches) if matches is not None else None
        self._fleet: Fleet | None = None  # created on demand
        self._lacking: set[str] = set()  # workloads that wait for a class or for devices, by key
        self._extended: dict[str, DeviceClass] = {}  # by extended resource
        if not self._rules.counts:
            return
        self._workloads = manager.informer(WORKLOAD, indexes={_BY_TEMPLATE: _list_claim_templates})
        # A server without the API group has no resource claims to count.
        self._templates = manager.informer(RESOURCE_CLAIM_TEMPLATE, optional=True)
        self._templates.on_change(self._on_template_changed)
        self._classes = manager.informer(DEVICE_CLASS, optional=True)
        self._classes.on_change(lambda *_: self._review_classes())
        if matches is not None:
            self._slices = manager.informer(RESOURCE_SLICE, optional=True)
            self._slices.on_change(lambda *_: self._forget_fleet())

    def count(self, workload: Workload) -> DeviceCount:
        """Return the quota that the devices of a workload use. Raises `QuantityError`."""
        podsets = workload.spec.pod_sets
        claiming = claims_devices(podsets)
        if not claiming and not self._extended:
            return NO_DEVICES  # most workloads have no claims
        templates = {}
        if claiming and self._rules.counts:
            named_templates = map(self._templates.get, _list_claim_templates(workload))
            templates = {one.metadata.name: one for one in named_templates if one is not None}
        fleet = self._get_fleet() if claiming else None
        return count_devices(podsets, self._rules, templates, self._extended, fleet)

    def problem(self, workload: Workload) -> str:
        """Return why the devices of a workload cannot be counted; "" if they can.

        A workload with a problem is remembered for `review`. Raises `QuantityError`.
        """
        problem = self.count(workload).problem
        if problem:
            self._lacking.add(key_of(workload))
        else:
            self._lacking.discard(key_of(workload))
        return problem

    def forget(self, key: str) -> None:
        """Forget a workload that no longer waits."""
        self._lacking.discard(key)

    def _get_fleet(self) -> Fleet | None:
        if self._fleet is None and self._matches is not None and self._rules.counts:
            self._fleet = Fleet(self._slices.all(), self._classes.all(), self._matches)
        return self._fleet

    def _forget_fleet(self) -> None:
        self._fleet = None

    def review(self) -> None:
        """Place the workloads that lack devices again, because the devices changed. Kueue places no others, either."""
        if self._lacking:
            lacking = frozenset(self._lacking)
            self._changed(lambda workload: key_of(workload) in lacking)

    def _on_template_changed(self, old: ResourceClaimTemplate | None, new: ResourceClaimTemplate | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        changed = new if new is not None else old
        assert changed is not None
        for workload in list(self._workloads.by(_BY_TEMPLATE, key_of(changed))):
            self._read_again(key_of(workload))

    def _review_classes(self) -> None:
        self._forget_fleet()
        self.review()
        if not self._rules.extended:
            return
        before, self._extended = self._extended, class_by_extended_resource(self._classes.all())
        differing = {
            name for name in before.keys() | self._extended.keys() if before.get(name) != self._extended.get(name)
        }
        if differing:
            self._changed(lambda workload: _requests_any(workload, differing))


class DeviceReview(Reconciler):
    """The reconciler that reconsiders the workloads that lack devices, some time after ResourceSlices changed."""

    name = "kueue-devices"

    def __init__(self, manager: Manager, devices: ClaimedDevices) -> None:
        super().__init__(manager)
        self._devices = devices
        slices = manager.informer(RESOURCE_SLICE, optional=True)
        self._controller.watch(slices, lambda _: (_ALL,), gather=REVIEW_SECONDS)

    async def _reconcile(self, key: str) -> Result:  # noqa: ARG002  (there is one)
        self._devices.review()
        return None


@ignores_status
def _list_claim_templates(workload: Workload) -> Collection[str]:
    """Return the claim templates that the pods of a workload name, as `namespace/name`."""
    claims = (claim for podset in workload.spec.pod_sets for claim in podset.template.spec.resource_claims)
    names = (claim.resource_claim_template_name for claim in claims)
    return {f"{workload.metadata.namespace}/{name}" for name in names if name is not None}


def _requests_any(workload: Workload, resources: set[str]) -> bool:
    return any(resources & pod_requests(podset.template.spec).keys() for podset in workload.spec.pod_sets)
