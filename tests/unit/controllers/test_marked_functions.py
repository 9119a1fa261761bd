"""Functions that are marked by `ignores_status` must not read the status, or indexes and queues would miss changes."""

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from muster.api.batch import JOB
from muster.api.core import POD
from muster.api.jobset import JOB_SET
from muster.api.kueue import WORKLOAD
from muster.controllers.podgroup.gang import PodGroups
from muster.runtime.objects import does_ignore_status

ROOMS = ("controllers", "multicluster", "cluster.controllers", "insight", "runtime")
# The functions that the tests must find, as a proof that they search in the right places.
KNOWN = {"by_controller", "by_local_queue", "owner_uids", "_list_own_key", "_index_by_group", "_list_template_keys"}

META = {
    "name": "one", "namespace": "ns", "uid": "1", "labels": {"a": "b"}, "annotations": {"c": "d"},
    "ownerReferences": [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "2", "controller": True}
    ],
}  # fmt: skip
OBJECTS = {
    kind.kind: kind.typed({"metadata": META, "spec": spec})
    for kind, spec in (
        (POD, {"containers": [{"name": "main"}], "schedulingGates": [{"name": "g"}]}),
        (JOB, {"template": {"spec": {"containers": [{"name": "main"}]}}}),
        (JOB_SET, {}),
        (WORKLOAD, {"queueName": "q", "podSets": []}),
    )
}


class Blind:
    """An object whose status and versions nobody may read."""

    def __init__(self, obj: Any) -> None:
        self._obj = obj

    def __getattr__(self, name: str) -> Any:
        if name in ("status", "resource_version", "generation", "managed_fields"):
            raise AssertionError(f"it reads {name}")
        value = getattr(self._obj, name)
        return Blind(value) if name == "metadata" else value


def list_modules() -> Iterator[ModuleType]:
    for room in ROOMS:
        package = import_module(f"muster.{room}")
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield import_module(found.name)


def list_marked() -> dict[str, Callable[..., Any]]:
    marked: dict[str, Callable[..., Any]] = {}
    for module in list_modules():
        classes = [one for _, one in inspect.getmembers(module, inspect.isclass) if one.__module__ == module.__name__]
        for place in (module, *classes):
            for name, function in inspect.getmembers(place, inspect.isfunction):
                if does_ignore_status(function):
                    marked[f"{function.__module__}.{function.__qualname__}"] = function
                    assert name == function.__name__
    return marked


class Host:
    """What the marked methods read of their objects."""

    _groups = _gangs = PodGroups()


def call(function: Callable[..., Any], obj: Any) -> list[str]:
    is_method = "self" in inspect.signature(function).parameters
    return list(function(Host(), obj) if is_method else function(obj))


def list_kinds(function: Callable[..., Any]) -> Iterator[str]:
    """Yield the kinds of objects that the function takes."""
    for kind, obj in OBJECTS.items():
        with suppress(AttributeError):
            call(function, obj)
            yield kind


MARKED = list_marked()


def test_marked_functions_are_found() -> None:
    assert {function.__name__ for function in MARKED.values()} >= KNOWN


@pytest.mark.parametrize("function", MARKED.values(), ids=MARKED)
def test_a_marked_function_reads_no_status(function: Callable[..., Any]) -> None:
    kinds = list(list_kinds(function))
    assert kinds, "OBJECTS has an object for each function"
    for kind in kinds:
        assert call(function, Blind(OBJECTS[kind])) == call(function, OBJECTS[kind])
