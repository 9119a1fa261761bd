"""Functions that are marked by `ignores_status` must not read the status, or indexes and queues would miss changes."""

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any

import msgspec.inspect
import pytest

from muster.api.batch import JOB
from muster.api.core import POD, Pod
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import JOBSET_NAME, JOBSET_UID
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, WORKLOAD_PRIORITY_CLASS, names
from muster.api.ours.elastic import ELASTIC_ANNOTATION, GANG_ANNOTATION
from muster.api.ours.notify import NOTICE_JOB_ANNOTATION
from muster.api.podgroups.names import POD_GROUP_LABEL
from muster.api.volcano import VOLCANO_JOB
from muster.controllers import trimming
from muster.controllers.gangs import GangSource
from muster.controllers.integrations.external.documents import ExternalJob
from muster.controllers.integrations.serving.groups import STATEFUL_SETS
from muster.controllers.integrations.serving.kinds import STATEFUL_SET
from muster.controllers.integrations.table import gang_sources
from muster.controllers.podgroup.gang import PodGroups
from muster.jobs.jobset.gang import WHOLE
from muster.runtime.objects import reads_status

ROOMS = ("controllers", "multicluster", "cluster.controllers", "insight", "runtime")
# The functions that the tests must find, as a proof that they search in the right places.
KNOWN = {"by_controller", "by_local_queue", "owner_uids", "_list_own_key", "_index_by_group", "_list_template_keys"}

LABELS = {
    "a": "b",
    names.MANAGED_LABEL: "true",
    names.PRIORITY_CLASS_LABEL: "high",
    JOBSET_UID: "3",
    POD_GROUP_LABEL: "group",
}
ANNOTATIONS = {
    names.WORKLOAD_ANNOTATION: "workload",
    names.IS_GROUP_WORKLOAD: "true",
    ELASTIC_ANNOTATION: "1:2",
    NOTICE_JOB_ANNOTATION: "job",
}
OWNERS = (
    None,
    ("batch/v1", "Job"),
    (JOB_SET.api_version, "JobSet"),
    (WORKLOAD.api_version, "Workload"),
    (VOLCANO_JOB.api_version, VOLCANO_JOB.kind),
    ("apps/v1", "StatefulSet"),
    ("v1", "Pod"),
)
POD_SPEC = {
    "containers": [{"name": "main"}],
    "schedulingGates": [{"name": names.ADMISSION_GATE}, {"name": names.ELASTIC_JOB}],
    "resourceClaims": [{"name": "claim", "resourceClaimTemplateName": "template"}],
}
PRIORITY = {"group": WORKLOAD_PRIORITY_CLASS.group, "kind": WORKLOAD_PRIORITY_CLASS.kind, "name": "high"}
SPECS: tuple[tuple[Kind[Any], dict[str, Any]], ...] = (
    (POD, POD_SPEC),
    (JOB, {"template": {"spec": POD_SPEC}, "manualSelector": True}),
    (JOB_SET, {}),
    (
        WORKLOAD,
        {
            "queueName": "q",
            "podSets": [{"name": "main", "count": 1, "template": {"spec": POD_SPEC}}],
            "priorityClassRef": PRIORITY,
        },
    ),
)


def make_objects(owner: tuple[str, str] | None) -> Iterator[Any]:
    """Yield an object of each kind with this controller, then pods that are parts of other groups."""
    version, kind = owner or ("", "")
    owners = [{"apiVersion": version, "kind": kind, "name": "o", "uid": "2", "controller": True}] if owner else []
    meta = {"name": "one", "namespace": "ns", "uid": "1", "ownerReferences": owners}
    for each, spec in SPECS:
        yield each.typed({"metadata": meta | {"labels": LABELS, "annotations": ANNOTATIONS}, "spec": spec})
    suspended = {names.POD_SUSPENDING_PARENT: STATEFUL_SET.name}  # a pod of a serving set that has not joined its group
    yield POD.typed({"metadata": meta | {"annotations": suspended}, "spec": POD_SPEC})
    sized = {names.POD_GROUP_TOTAL_COUNT: "2"}
    grouped = meta | {"labels": {names.POD_GROUP_NAME_LABEL: "plain"}, "annotations": sized}
    yield POD.typed({"metadata": grouped, "spec": POD_SPEC})
    in_set = {"labels": {JOBSET_UID: "3", JOBSET_NAME: "set"}, "annotations": {GANG_ANNOTATION: WHOLE}}
    yield POD.typed({"metadata": meta | in_set, "spec": POD_SPEC})


OBJECTS = [obj for owner in OWNERS for obj in make_objects(owner)]


# What `is_same_but_status` does not compare, and may therefore differ.
UNREAD = {
    "status", "resource_version", "generation", "managed_fields", "creation_timestamp", "deletion_grace_period_seconds",
}  # fmt: skip


class Blind:
    """An object whose status and versions nobody may read."""

    def __init__(self, obj: Any) -> None:
        self._obj = obj

    def __getattr__(self, name: str) -> Any:
        if name in UNREAD:
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
                if not reads_status(function):
                    marked[f"{function.__module__}.{function.__qualname__}"] = function
                    assert name == function.__name__
    return marked


class Host:
    """What the marked methods read of their objects."""

    _groups = _gangs = PodGroups()


class ServingHost:
    _groups = STATEFUL_SETS


def call(function: Callable[..., Any], obj: Any) -> list[str]:
    if "self" not in inspect.signature(function).parameters:
        return list(function(obj))
    return list(function(ServingHost() if function.__name__ == "_set_of" else Host(), obj))


def list_results(function: Callable[..., Any]) -> Iterator[tuple[Any, list[str]]]:
    """Yield the objects that the function takes, with its results."""
    for obj in OBJECTS:
        with suppress(AttributeError):
            yield obj, call(function, obj)


MARKED = list_marked()


def test_marked_functions_are_found() -> None:
    assert {function.__name__ for function in MARKED.values()} >= KNOWN


@pytest.mark.parametrize("function", MARKED.values(), ids=MARKED)
def test_a_marked_function_reads_no_status(function: Callable[..., Any]) -> None:
    results = list(list_results(function))
    assert any(keys for _, keys in results), "one of OBJECTS has keys"
    for obj, keys in results:
        assert call(function, Blind(obj)) == keys


@pytest.mark.parametrize("source", gang_sources(), ids=lambda source: type(source).__name__)
def test_the_key_of_a_gang_does_not_depend_on_the_status(source: GangSource[Any]) -> None:
    pods = [obj for obj in OBJECTS if isinstance(obj, Pod)]
    keys = [source.key(pod) for pod in pods]
    assert any(keys), "one of OBJECTS is in such a gang"
    assert [source.key(Blind(pod)) for pod in pods] == keys  # type: ignore[arg-type]


SCALARS = (
    msgspec.inspect.StrType, msgspec.inspect.IntType, msgspec.inspect.FloatType, msgspec.inspect.BoolType,
    msgspec.inspect.NoneType, msgspec.inspect.DateTimeType, msgspec.inspect.LiteralType, msgspec.inspect.EnumType,
    msgspec.inspect.StructType,
)  # fmt: skip


def list_raw(type_: Any, seen: set[type]) -> Iterator[str]:
    """Yield the places of a type where any JSON may stand."""
    match type_:
        case msgspec.inspect.AnyType() | msgspec.inspect.RawType():
            yield "here"
        case msgspec.inspect.StructType(cls=cls, fields=fields) if cls not in seen:
            seen.add(cls)
            for field in fields:
                yield from (f"{cls.__name__}.{field.name}: {place}" for place in list_raw(field.type, seen))
        case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.VarTupleType(item_type=item):
            yield from list_raw(item, seen)
        case msgspec.inspect.DictType(value_type=value):
            yield from list_raw(value, seen)
        case msgspec.inspect.UnionType(types=types):
            for each in types:
                yield from list_raw(each, seen)
        case msgspec.inspect.Metadata(type=inner):
            yield from list_raw(inner, seen)
        case _:
            assert isinstance(type_, SCALARS), f"is {type_} plain?"


@pytest.mark.parametrize("kind", trimming._SHARING_KINDS)
def test_states_that_share_equal_parts_contain_no_json_of_any_type(kind: type) -> None:
    assert list(list_raw(msgspec.inspect.type_info(kind), set())) == []
    assert {*kind.__struct_fields__} <= {"api_version", "kind", "metadata", "spec", "status"}  # type: ignore[attr-defined]
    assert list(list_raw(msgspec.inspect.type_info(ExternalJob), set())) != []
