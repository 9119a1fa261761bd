"""Tests of what clusters add to pods, as their workload counts it."""

from typing import Any

import msgspec
import pytest

from muster.api.core.quota import LimitRange, LimitRangeItem
from muster.api.groups.runtimeclass import RuntimeClass
from muster.api.kueue import Workload
from muster.queueing.additions import Completion, complete_workload, defaults_of
from muster.queueing.convert import convert_workload as read


def limits(type_: str = "Container", **item: Any) -> LimitRangeItem:
    return msgspec.convert({"type": type_, **item}, LimitRangeItem)


def a_workload(resources: Any, **spec: Any) -> Workload:
    template = {"spec": {"containers": [{"name": "c", "resources": resources}], **spec}}
    document = {"metadata": {"name": "w", "namespace": "n"}, "spec": {"podSets": [{"count": 1, "template": template}]}}
    return msgspec.convert(document, Workload)


DEFAULT = (limits(default={"cpu": "4"}, defaultRequest={"cpu": "2"}),)


@pytest.mark.parametrize(
    ("ranges", "resources", "spec", "asked"),
    [
        ((), {}, {}, {}),
        (DEFAULT, {}, {}, {"cpu": 2000}),
        (DEFAULT, {"requests": {"cpu": "1"}}, {}, {"cpu": 1000}),
        (DEFAULT, {"limits": {"cpu": "3"}}, {}, {"cpu": 3000}),
        ((limits(default={"cpu": "4"}),), {}, {}, {"cpu": 4000}),
        ((limits("Pod", max={"cpu": "4"}),), {}, {}, {}),
        ((limits(defaultRequest={"cpu": "1"}), *DEFAULT), {}, {}, {"cpu": 1000}),
        (DEFAULT, {"requests": {"cpu": "1"}}, {"initContainers": [{"name": "i"}]}, {"cpu": 2000}),
        ((), {}, {"runtimeClassName": "vm"}, {"cpu": 250}),
        ((), {"requests": {"cpu": "1"}}, {"runtimeClassName": "vm", "overhead": {"cpu": "1"}}, {"cpu": 2000}),
        ((), {}, {"runtimeClassName": "other"}, {}),
    ],
    ids=["nothing", "a default request", "its own request", "its own limit", "a default limit", "limits of pods",
         "the first one", "an init container", "overhead", "its own overhead", "an unknown class"],
)  # fmt: skip
def test_what_a_pod_asks_for(ranges, resources, spec, asked):
    result = complete_workload(a_workload(resources, **spec), defaults_of(ranges), {"vm": {"cpu": "250m"}})
    (podset,) = read(result, "q").podsets
    assert podset.requests == asked


def test_additions_are_those_of_the_namespace_and_of_the_class():
    ranges = [
        msgspec.convert({"metadata": {"name": "r", "namespace": name}, "spec": {"limits": [item]}}, LimitRange)
        for name, item in (("n", {"type": "Container", "defaultRequest": {"cpu": "2"}}),
                           ("other", {"type": "Container", "defaultRequest": {"cpu": "3"}}),
                           ("pods", {"type": "Pod", "max": {"cpu": "3"}}))
    ]  # fmt: skip
    classes = [
        msgspec.convert(
            {"metadata": {"name": "vm"}, "handler": "h", "overhead": {"podFixed": {"cpu": "250m"}}}, RuntimeClass
        ),
        msgspec.convert({"metadata": {"name": "bare"}, "handler": "h"}, RuntimeClass),
    ]
    additions = Completion.of(ranges, classes)
    assert (sorted(additions.defaults), sorted(additions.overheads)) == (["n", "other"], ["vm"])
    one = a_workload({}, runtimeClassName="vm")
    (podset,) = read(additions.workload(one), "q").podsets
    assert podset.requests == {"cpu": 2250}
    assert additions.podset(one.spec.pod_sets[0], "n") == additions.workload(one).spec.pod_sets[0]


def test_a_workload_to_which_nothing_is_added_is_itself():
    one = a_workload({"requests": {"cpu": "1"}, "limits": {"cpu": "4"}})
    assert complete_workload(one, defaults_of(DEFAULT), {"vm": {"cpu": "1"}}) is one
