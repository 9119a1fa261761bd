"""Built-in kinds: what is unknown, what is null, and the sentences of Go's decoder."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.batch import JOB
from muster.api.core import CONFIG_MAP, POD, SECRET
from muster.api.groups.coordination import LEASE
from muster.api.kinds import Kind
from muster.cluster.apiserver.schema import Checked, DecodeError, compile_builtin, sound_parts

CHECKERS = {kind.kind: compile_builtin(kind) for kind in (POD, JOB, CONFIG_MAP, SECRET, LEASE)}


def check(kind: Kind[Any], document: Any) -> Checked:
    before = copy.deepcopy(document)
    checked = CHECKERS[kind.kind](document)
    assert document == before
    return checked


def pod(**container: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def test_a_known_document_is_returned_as_it_is() -> None:
    document = pod(
        name="c",
        args=["a", "b"],
        env=[{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        ports=[{"containerPort": 80, "protocol": "TCP"}],
        resources={"limits": {"cpu": "1", "memory": 1024, "example.com/gpu": 0.5}},
        livenessProbe={"httpGet": {"port": "web", "path": "/"}, "periodSeconds": 3},
    )
    document["metadata"]["managedFields"] = [
        {"manager": "m", "fieldsV1": {"f:spec": {}}, "time": "2026-01-01T00:00:00Z"}
    ]
    document["spec"]["nodeSelector"] = {"a": "b"}
    document["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00.5+02:00"}
    checked = check(POD, document)
    assert checked.value is document
    assert checked == (document, (), ())


@pytest.mark.parametrize(
    ("given_spec", "kept"),
    [
        pytest.param({"nodeSelector": {}}, {}, id="a map"),
        pytest.param({"tolerations": [], "overhead": {}}, {}, id="a list"),
        pytest.param({"securityContext": {}}, {"securityContext": {}}, id="a struct stays"),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            id="a choice stays",
        ),
        pytest.param({"nodeSelector": {"a": ""}}, {"nodeSelector": {"a": ""}}, id="an empty text in a map stays"),
    ],
)
def test_empty_lists_and_maps_go_as_go_leaves_them_out(given_spec: dict[str, Any], kept: dict[str, Any]) -> None:
    checked = check(POD, {"metadata": {"name": "p", "labels": {}}, "spec": given_spec})
    assert checked == ({"metadata": {"name": "p"}, "spec": kept}, (), ())


@pytest.mark.parametrize(
    ("document", "unknown"),
    [
        ({"foo": 1}, ["foo"]),
        ({"spec": {"foo": 1}}, ["spec.foo"]),
        (pod(name="c", foo=1), ["spec.containers[0].foo"]),
        (pod(env=[{"name": "a"}, {"nam": "b"}]), ["spec.containers[0].env[1].nam"]),
        ({"metadata": {"labels": {"a": "b"}, "lables": {}}}, ["metadata.lables"]),
        ({"a": 1, "spec": {"b": {"c": 1}}}, ["a", "spec.b"]),
    ],
)
def test_unknown_fields_are_named_and_go(document: dict[str, Any], unknown: list[str]) -> None:
    checked = check(POD, document)
    assert list(checked.unknown) == unknown
    assert CHECKERS["Pod"](checked.value) == (checked.value, (), ())


@pytest.mark.parametrize(
    ("kind", "document", "value"),
    [
        (POD, {"metadata": None, "spec": {"nodeName": None}}, {"spec": {}}),
        (POD, pod(name="c", args=None, env=[{"name": "a", "valueFrom": None}]), pod(name="c", env=[{"name": "a"}])),
        (POD, pod(args=["a", None]), pod(args=["a", ""])),
        (POD, {"spec": {"containers": [None]}}, {"spec": {"containers": [{}]}}),
        (CONFIG_MAP, {"data": {"a": None}}, {"data": {"a": ""}}),
        (POD, {"metadata": {"managedFields": [{"fieldsV1": {"a": None}}]}}, None),
    ],
)
def test_nulls_are_absent(kind: Kind[Any], document: dict[str, Any], value: dict[str, Any] | None) -> None:
    checked = check(kind, document)
    assert checked.value == (document if value is None else value)
    assert checked.unknown == ()


@pytest.mark.parametrize(
    ("kind", "document", "message"),
    [
        (POD, {"spec": 1}, "number into Pod.spec of type v1.PodSpec"),
        (
            POD,
            {"spec": {"containers": {}}},
            "object into PodSpec.spec.containers of type []v1.Container",
        ),
        (
            POD,
            {"spec": {"containers": ["c"]}},
            "string into PodSpec.spec.containers of type v1.Container",
        ),
        (
            POD,
            pod(ports="80"),
            "string into Container.spec.containers.ports of type []v1.ContainerPort",
        ),
        (
            POD,
            pod(ports=[{"containerPort": "80"}]),
            "string into ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            POD,
            pod(env=[{"name": "A", "value": 1}]),
            "number into EnvVar.spec.containers.env.value of type string",
        ),
        (
            POD,
            pod(tty="yes"),
            "string into Container.spec.containers.tty of type bool",
        ),
        (
            JOB,
            {"spec": {"parallelism": 2**31}},
            "number 2147483648 into JobSpec.spec.parallelism of type int32",
        ),
        (
            JOB,
            {"spec": {"parallelism": 1.5}},
            "number 1.5 into JobSpec.spec.parallelism of type int32",
        ),
        (
            JOB,
            {"spec": {"parallelism": True}},
            "bool into JobSpec.spec.parallelism of type int32",
        ),
        (
            JOB,
            {"spec": {"activeDeadlineSeconds": "1"}},
            "string into JobSpec.spec.activeDeadlineSeconds of type int64",
        ),
        (
            POD,
            {"metadata": {"labels": {"a": 1}}},
            "number into ObjectMeta.metadata.labels of type string",
        ),
        (
            POD,
            {"metadata": {"labels": []}},
            "array into ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            POD,
            pod(livenessProbe={"httpGet": {"port": {}}}),
            "object into HTTPGetAction.spec.containers.livenessProbe.httpGet.port of type intstr.IntOrString",
        ),
    ],
)
def test_values_of_a_wrong_type(kind: Kind[Any], document: Any, message: str) -> None:
    with pytest.raises(DecodeError) as error:
        CHECKERS[kind.kind](document)
    assert str(error.value) == "json: cannot unmarshal " + message.replace(" into ", " into Go struct field ")


@pytest.mark.parametrize(
    ("kind", "document", "message"),
    [
        (POD, [], "json: cannot unmarshal array into Go value of type v1.Pod"),
        (POD, "x", "json: cannot unmarshal string into Go value of type v1.Pod"),
        (
            POD,
            pod(livenessProbe={"httpGet": {"port": 2**31}}),
            "json: cannot unmarshal number 2147483648 into Go value of type int32",
        ),
        (
            POD,
            pod(livenessProbe={"httpGet": {"port": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go value of type int32",
        ),
        (
            POD,
            {"metadata": {"creationTimestamp": "yesterday"}},
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"',
        ),
        (SECRET, {"data": {"a": "*"}}, "illegal base64 data"),
        (
            LEASE,
            {"spec": {"renewTime": "2026-01-01T00:00:00Z"}},
            'parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"',
        ),
    ],
)
def test_other_decode_errors(kind: Kind[Any], document: Any, message: str) -> None:
    with pytest.raises(DecodeError) as error:
        CHECKERS[kind.kind](document)
    assert str(error.value) == message


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda value: (
        st.lists(value, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "metadata", "containers", "name", "env", "ports", "labels", "status", "volumes", "x"]
            ),
            value,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(_anything)
def test_whatever_it_is_checking_settles_it(document: Any) -> None:
    before = copy.deepcopy(document)
    try:
        checked = CHECKERS["Pod"](document)
    except DecodeError:
        return
    finally:
        assert document == before
    again = CHECKERS["Pod"](checked.value)
    assert again.value is checked.value
    assert again.unknown == ()


def test_what_a_change_has_left_as_it_was_stored_is_not_gone_into_again() -> None:
    stored = pod(name="c", nonsense=1) | {"status": {"phase": "Running"}}
    stored["metadata"]["labels"] = {"app": 1}
    changed = stored | {"metadata": stored["metadata"] | {"annotations": {"a": "b"}}, "status": {"phase": "x", "no": 1}}
    checked = CHECKERS["Pod"](changed, sound_parts(stored))
    assert checked.unknown == ("status.no",)
    assert checked.value == changed | {"status": {"phase": "x"}}
    equal = changed | {"spec": copy.deepcopy(stored["spec"])}  # but another one
    assert CHECKERS["Pod"](equal, sound_parts(stored)).unknown == ("spec.containers[0].nonsense", "status.no")


def test_of_plain_values_none_is_told_by_what_it_is() -> None:
    stored = pod(name="c") | {"status": {"phase": "Running"}, "extra": True}
    with pytest.raises(DecodeError):
        CHECKERS["Pod"](stored | {"status": {"phase": True}}, sound_parts(stored))
