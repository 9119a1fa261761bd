import gc
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api.core import POD, ContainerStatus, PodStatus
from muster.api.kinds import without_nulls
from muster.api.meta import ObjectMeta, OwnerReference, UnreadManager, controller_of, wire_name


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("name", "name"),
        ("pod_ip", "podIP"),
        ("pod_ips", "podIPs"),
        ("host_ipc", "hostIPC"),
        ("pod_cidrs", "podCIDRs"),
        ("ip_families", "ipFamilies"),
        ("http_get", "httpGet"),
        ("downward_api", "downwardAPI"),
        ("set_hostname_as_fqdn", "setHostnameAsFQDN"),
        ("config_map_key_ref", "configMapKeyRef"),
        ("container_id", "containerID"),
        ("system_uuid", "systemUUID"),
        ("provider_id", "providerID"),
        ("scale_io", "scaleIO"),
        ("continue_", "continue"),
        ("ttl_seconds_after_finished", "ttlSecondsAfterFinished"),
    ],
)
def test_wire_name(field: Any, name: Any) -> None:
    assert wire_name(field) == name


def test_objects_are_views() -> None:
    pod = POD.decode(b'{"kind":"Pod","metadata":{"name":"a","x":1},"spec":{"hostPID":true,"new":{}},"status":null}')
    assert pod.metadata.name == "a"
    assert pod.spec.host_pid
    assert pod.status == PodStatus()


def test_the_collector_does_not_look_at_objects() -> None:
    pod = POD.decode(b'{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}')
    assert not any(map(gc.is_tracked, (pod, pod.metadata, pod.spec, pod.spec.containers[0])))


def test_only_what_is_said_is_written() -> None:
    body = POD.encode(POD.decode(b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","args":[]}]}}'))
    assert json.loads(body) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c"}]},
    }


def test_none_and_nothing_and_zero_are_different() -> None:
    statuses = [msgspec.json.decode(text, type=ContainerStatus) for text in (b"{}", b'{"started":false}')]
    assert [status.started for status in statuses] == [None, False]
    meta = ObjectMeta(deletion_grace_period_seconds=0)
    assert msgspec.json.encode(meta) == b'{"deletionGracePeriodSeconds":0}'


def test_times_are_aware() -> None:
    meta = msgspec.json.decode(b'{"creationTimestamp":"2026-01-01T00:00:00Z"}', type=ObjectMeta)
    assert meta.creation_timestamp == datetime(2026, 1, 1, tzinfo=UTC)
    assert msgspec.json.encode(meta) == b'{"creationTimestamp":"2026-01-01T00:00:00Z"}'


def test_integers_have_their_size() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"<= 2147483647 - at `\$.spec.priority`"):
        POD.decode(b'{"spec":{"priority":2147483648}}')


def test_without_nulls() -> None:
    assert without_nulls({"a": None, "b": [{"c": None}, 1]}) == {"b": [{}, 1]}


def test_the_owner_that_manages_an_object() -> None:
    owners = (OwnerReference(uid="a"), OwnerReference(uid="b", controller=True))
    assert controller_of(ObjectMeta(owner_references=owners)) == owners[1]
    assert controller_of(ObjectMeta(owner_references=owners[:1])) is None


def test_who_manages_which_fields_is_not_decoded() -> None:
    meta = {"name": "a", "managedFields": [{"manager": "b", "fieldsV1": {"f:spec": {}}}, {"manager": "c"}]}
    body = json.dumps({"metadata": meta}).encode()
    for obj in (POD.decode(body), POD.typed(json.loads(body))):
        assert obj.metadata == ObjectMeta(name="a", managed_fields=(UnreadManager(), UnreadManager()))
