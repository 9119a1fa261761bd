"""Watch LimitRanges and RuntimeClasses, which change and limit the pods of workloads beyond their templates."""

from collections.abc import Callable

from muster.api.core.quota import LIMIT_RANGE, LimitRange, LimitRangeItem
from muster.api.groups.runtimeclass import RUNTIME_CLASS, RuntimeClass
from muster.api.kueue import Workload
from muster.api.values.quantity import ResourceList
from muster.queueing.additions import Defaults, complete_workload, defaults_of
from muster.queueing.limits import limits_problem
from muster.runtime.control.manager import Manager
from muster.runtime.objects import BY_NAMESPACE, by_namespace

# A predicate that selects the workloads that a change concerns.
Concerned = Callable[[Workload], bool]


class Additions:
    """The defaults and overheads that the cluster currently adds to pods.

    changed: called with a predicate that selects the workloads whose pods will differ.
    """

    def __init__(self, manager: Manager, changed: Callable[[Concerned], None]) -> None:
        self._changed = changed
        self._defaults: dict[str, Defaults] = {}  # container defaults, by namespace
        self._items: dict[str, tuple[LimitRangeItem, ...]] = {}  # the items of LimitRanges, by namespace
        self._overheads: dict[str, ResourceList] = {}  # the overhead of each pod, by RuntimeClass
        self._ranges = manager.informer(LIMIT_RANGE, indexes={BY_NAMESPACE: by_namespace})
        self._ranges.on_change(self._on_limit_range_changed)
        manager.informer(RUNTIME_CLASS).on_change(self._on_runtime_class_changed)

    def complete(self, workload: Workload) -> Workload:
        """Return the workload with defaults and overheads added. If there are none, that is the same object."""
        defaults = self._defaults.get(workload.metadata.namespace)
        return (
            complete_workload(workload, defaults, self._overheads)
            if defaults is not None or self._overheads
            else workload
        )

    def problem(self, workload: Workload) -> str:
        """Return why the API server would refuse the workload's pods; "" if it would accept them.

        Raises `QuantityError`.
        """
        items = self._items.get(workload.metadata.namespace, ())
        return limits_problem(self.complete(workload).spec.pod_sets, items)

    def _on_limit_range_changed(self, old: LimitRange | None, new: LimitRange | None) -> None:
        changed = new if new is not None else old
        assert changed is not None
        namespace = changed.metadata.namespace
        ranges = sorted(self._ranges.by(BY_NAMESPACE, namespace), key=lambda one: one.metadata.name)
        before = self._items.pop(namespace, ())
        self._defaults.pop(namespace, None)
        if items := tuple(item for one in ranges for item in one.spec.limits):
            self._items[namespace] = items
        if (defaults := defaults_of(items)) is not None:
            self._defaults[namespace] = defaults
        if items != before:
            self._changed(lambda workload: workload.metadata.namespace == namespace)

    def _on_runtime_class_changed(self, old: RuntimeClass | None, new: RuntimeClass | None) -> None:
        changed = new if new is not None else old
        assert changed is not None
        name = changed.metadata.name
        overhead = new.overhead.pod_fixed if new is not None and new.overhead is not None else {}
        before = self._overheads.pop(name, {})
        if overhead:
            self._overheads[name] = overhead
        if overhead != before:
            self._changed(lambda workload: _has_runtime_class(workload, name))


def _has_runtime_class(workload: Workload, runtime_class: str) -> bool:
    return any(podset.template.spec.runtime_class_name == runtime_class for podset in workload.spec.pod_sets)
