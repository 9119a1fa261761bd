"""Whatever is well typed gets an answer, not an exception; and a good object stays good."""

from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.batch import JOB
from muster.api.core import POD, SERVICE
from muster.api.defaults import DEFAULTS, generate_selector
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.schema import make_inlined_schema
from muster.api.validation import jobset as jobset_rules
from muster.api.validation.core import service as service_rules
from muster.api.validation.jobs import job as job_rules
from muster.api.validation.pods import pod as pod_rules

RULES = {POD: pod_rules, JOB: job_rules, SERVICE: service_rules, JOB_SET: jobset_rules}
TEXTS = st.one_of(
    st.sampled_from(
        ["", "a", "A", "..", "/a", "a/b", "-1", "None", "Always", "Never", "In", "TCP", "1Gi", "0-3", "10.0.0.1"]
    ),
    st.text(max_size=3),
)
NUMBERS = st.sampled_from([-1, 0, 1, 2, 70000, 2**31 - 1])


def values(schema: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Anything that has the types of the schema, not too deep."""
    if "x-kubernetes-int-or-string" in schema:
        return NUMBERS | TEXTS
    if "oneOf" in schema:
        return TEXTS | NUMBERS | st.sampled_from([0.5, "500m"])
    match schema.get("type"):
        case "string":
            return {
                "date-time": st.just("2026-01-01T00:00:00Z"),
                "byte": st.just("eA=="),
            }.get(schema.get("format", ""), TEXTS)
        case "integer":
            return NUMBERS
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(values(schema["items"], depth + 1), max_size=2)
        case "object" if "properties" in schema:
            return st.deferred(lambda: members(schema["properties"], depth))
        case "object":
            return st.dictionaries(TEXTS, values(schema.get("additionalProperties", {}), depth + 1), max_size=2)
    return st.just({})


def members(properties: dict[str, dict[str, Any]], depth: int) -> st.SearchStrategy[dict[str, Any]]:
    most = 4 if depth < 8 else 1
    names = st.lists(st.sampled_from(sorted(properties)), unique=True, max_size=most)
    values_of = cache(lambda name: values(properties[name], depth + 1))  # made and checked once, not for each example
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: values_of(name) for name in chosen}))


def server_view(kind: Kind[Any], obj: dict[str, Any]) -> Any:
    DEFAULTS[kind.resource](obj)
    once = msgspec.json.encode(obj)
    DEFAULTS[kind.resource](obj)
    assert msgspec.json.encode(obj) == once
    if kind is JOB:
        generate_selector(obj, "uid")
    return msgspec.convert(obj, kind.type)


@pytest.mark.parametrize("kind", list(RULES), ids=lambda kind: kind.resource)
def test_every_well_typed_object_gets_an_answer(kind: Any) -> None:
    schema = make_inlined_schema(kind)["properties"]
    spec = members(schema["spec"]["properties"], 0)

    @given(spec, spec, values(schema["status"]), values(schema["metadata"]))
    def check(first: Any, second: Any, status: Any, metadata: Any) -> None:
        new = server_view(kind, {"metadata": metadata, "spec": first, "status": status})
        old = server_view(kind, {"metadata": {"name": "a"}, "spec": second})
        for errors in (
            RULES[kind].validate_create(new),
            RULES[kind].validate_update(new, old),
            RULES[kind].validate_status_update(new, old),
        ):
            assert all(str(error) for error in errors)

    check()


@pytest.mark.parametrize("kind", [POD, JOB], ids=lambda kind: kind.resource)
def test_containers_get_an_answer(kind: Any) -> None:
    properties = make_inlined_schema(POD)["properties"]["spec"]["properties"]
    container = members(properties["containers"]["items"]["properties"], 2)
    volume = members(properties["volumes"]["items"]["properties"], 2)

    @given(st.lists(container, max_size=2), st.lists(container, max_size=2), st.lists(volume, max_size=2))
    def check(main: Any, init: Any, volumes: Any) -> None:
        spec = {"containers": main, "initContainers": init, "volumes": volumes}
        obj = {"spec": spec} if kind is POD else {"spec": {"template": {"spec": spec}}}
        typed = server_view(kind, obj)
        assert all(str(error) for error in RULES[kind].validate_create(typed))
        assert RULES[kind].validate_update(typed, typed) is not None

    check()


@pytest.mark.parametrize("kind", [POD, JOB], ids=lambda kind: kind.resource)
def test_an_unchanged_object_breaks_no_rule(kind: Any, pod: Any, indexed: Any, defaulted: Any) -> None:
    typed = defaulted(kind, pod if kind is POD else indexed)
    assert RULES[kind].validate_update(typed, typed) == []
    assert RULES[kind].validate_status_update(typed, typed) == []
