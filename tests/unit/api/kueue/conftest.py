"""Documents of a kind, made at random from its schema."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import strategies as st

from muster.api.kinds import Kind
from muster.api.schema import Schema, make_structural_schema

Json = dict[str, Any]

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
NAMES = st.sampled_from(["a", "b", "c", "host1", "host2", "rack1"])
QUANTITIES = st.sampled_from([0, 3, "500m", "2Gi"])
TIMES = st.sampled_from(["2026-01-02T03:04:05Z", "2027-01-02T03:04:05Z"])
# Of the schema's words, these go together.
CLASSES = [("kueue.x-k8s.io", "WorkloadPriorityClass"), ("scheduling.k8s.io", "PriorityClass")]
SMALL = 3  # members of lists and maps


@st.composite
def domains(draw: st.DrawFn) -> Json:
    """A topology assignment of v1beta1: no domain twice."""
    levels = draw(st.lists(st.sampled_from(["block", "rack", "host"]), min_size=1, max_size=3, unique=True))
    values = st.lists(NAMES, min_size=len(levels), max_size=len(levels))
    found = draw(st.lists(values, min_size=0, max_size=6, unique_by=tuple))
    return {"levels": levels, "domains": [{"values": each, "count": draw(st.integers(1, 4))} for each in found]}


@cache
def documents(kind: Kind[Any]) -> st.SearchStrategy[Json]:
    """Objects that the kind's schema accepts, but for topology assignments, which are empty or v1beta1's."""
    schema = make_structural_schema(kind)
    members = {name: member for name, member in schema["properties"].items() if name != "metadata"}
    members |= {"apiVersion": {"enum": [kind.api_version]}, "kind": {"enum": [kind.kind]}}
    required = [*schema.get("required", ()), "apiVersion", "kind"]
    found = _object(schema | {"properties": members, "required": required}, "")
    return found.map(lambda document: document | {"metadata": {"name": "x", "labels": {"a": "b"}}})


def _value(schema: Schema, name: str) -> st.SearchStrategy[Any]:
    if name == "template":
        return st.just(TEMPLATE)
    if name == "topologyAssignment":
        return domains() if "domains" in schema["properties"] else st.just({"levels": ["host"], "slices": []})
    if name == "priorityClassRef":
        return st.sampled_from([{"group": group, "kind": kind, "name": "low"} for group, kind in CLASSES])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return QUANTITIES
    match schema["type"]:
        case "object" if "properties" in schema:
            return _object(schema, name)
        case "object":
            return st.dictionaries(NAMES, _value(schema["additionalProperties"], ""), max_size=SMALL)
        case "array":
            return _list(schema)
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(schema.get("minimum", -5), 9)
        case _:
            return TIMES if schema.get("format") == "date-time" else NAMES


def _object(schema: Schema, _name: str) -> st.SearchStrategy[Json]:
    required = set(schema.get("required", ()))
    members = {name: _value(member, name) for name, member in schema["properties"].items()}
    return st.fixed_dictionaries(
        {name: value for name, value in members.items() if name in required},
        optional={name: value for name, value in members.items() if name not in required},
    )


def _list(schema: Schema) -> st.SearchStrategy[list[Any]]:
    least = schema.get("minItems", 0)
    keys = schema.get("x-kubernetes-list-map-keys")
    unique: Callable[[Any], Any] | None = None
    if keys:
        unique = lambda item: tuple(str(item.get(key)) for key in keys)  # noqa: E731
    elif schema["items"].get("type") == "string":
        unique = str
    return st.lists(_value(schema["items"], ""), min_size=least, max_size=max(least, SMALL), unique_by=unique)


@pytest.fixture(scope="session")
def documents_of() -> Callable[[Kind[Any]], st.SearchStrategy[Json]]:
    return documents
