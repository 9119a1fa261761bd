"""What an autoscaler is asked for a gang."""

from typing import Any

import msgspec
import pytest

from muster.api.batch import JOB, Job
from muster.api.core import Pod
from muster.controllers.gangs import Gang, Turn
from muster.controllers.scheduler.ask import GangTurn
from muster.controllers.scheduler.capacityrequest import need_of
from muster.controllers.scheduler.carrier import Carrier
from muster.gang.nodes.capacity import Capacity
from muster.gang.quorum import Quorum

CLASS = "check-capacity.autoscaling.x-k8s.io"
CARRIER = Carrier(JOB, msgspec.convert({"metadata": {"name": "j", "namespace": "ns", "uid": "u"}}, Job))


def pod(name: str, *, cpu: str = "1", labels: Any = None, container: Any = None, **spec: Any) -> Pod:
    main = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}, **(container or {})}
    meta = {"name": name, "namespace": "ns", "uid": name, "labels": labels or {}}
    document = {
        "metadata": meta | {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [main], **spec},
    }
    return msgspec.convert(document, Pod)


def ask(*pods: Pod, quorums: tuple[Quorum, ...] = (), carrier: Carrier | None = CARRIER) -> GangTurn:
    gang = Gang(unbound={one.metadata.uid: one for one in pods})
    return GangTurn.of("ns/j/u", gang, Turn(pods, quorums), carrier, Capacity(), frozenset())


def sets(asked: GangTurn) -> list[tuple[int, dict[str, Any]]]:
    """The counts, and what the template of each says."""
    need = need_of(asked, CLASS)
    assert need is not None
    templates = {one.metadata.name: msgspec.json.decode(msgspec.json.encode(one.template)) for one in need.templates}
    return [(one.count, templates[one.pod_template_ref.name]) for one in need.request.spec.pod_sets]


SELECTOR = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [SELECTOR]}}
DISK = {"name": "d", "persistentVolumeClaim": {"claimName": "d"}}

TEMPLATES = [
    pytest.param({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "b"}}, id="a node selector"),
    pytest.param({"tolerations": [{"key": "t"}]}, {"tolerations": [{"key": "t"}]}, id="tolerations"),
    pytest.param({"priority": 3, "priorityClassName": "p"}, {"priority": 3, "priorityClassName": "p"}, id="a priority"),
    pytest.param({"affinity": APART}, {"affinity": APART}, id="affinity"),
    pytest.param({"overhead": {"cpu": "1"}}, {"overhead": {"cpu": "1"}}, id="overhead"),
    pytest.param({"volumes": [DISK, {"name": "e", "emptyDir": {}}]}, {"volumes": [DISK]}, id="claims of volumes"),
    pytest.param({"container": {"command": ["x"], "env": [{"name": "n", "value": "v"}]}}, {}, id="not the program"),
    pytest.param({"hostname": "h", "serviceAccountName": "s", "schedulingGates": []}, {}, id="not who it is"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "said"), TEMPLATES)
def test_a_template_says_what_nodes_are_chosen_by(given: dict[str, Any], said: dict[str, Any]) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    ((count, template),) = sets(ask(pod("a", **given), pod("b", **given)))
    assert (count, template["spec"]) == (2, {"containers": [container], **said})


WORKERS = [pod(f"w{number}") for number in range(3)]
LEAD = pod("lead", cpu="2")
NAMED = [pod(f"n{number}", labels={"app": "a", "index": str(number)}, affinity=APART) for number in range(2)]
ANY_TWO = Quorum(frozenset(one.metadata.uid for one in WORKERS), 2)


@pytest.mark.parametrize(
    ("asked", "counts"),
    [
        pytest.param(ask(*WORKERS), [3], id="like pods are one set"),
        pytest.param(ask(LEAD, *WORKERS), [1, 3], id="each sort is a set of its own"),
        pytest.param(ask(*NAMED), [2], id="labels that nobody looks at make no sort"),
        pytest.param(ask(*WORKERS, quorums=(ANY_TWO,)), [2], id="no more than the least that starts"),
    ],
)
def test_the_whole_need_is_counted_by_sort(asked: GangTurn, counts: list[int]) -> None:
    assert sorted(count for count, _ in sets(asked)) == counts


def test_labels_that_others_look_at_are_kept() -> None:
    ((_, template),) = sets(ask(*NAMED))
    assert template["metadata"] == {"labels": {"app": "a"}}


CLAIMING = [pod(f"c{number}", resourceClaims=[{"name": "gpu"}]) for number in range(2)]


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(ask(LEAD), id="a pod that goes alone"),
        pytest.param(ask(*WORKERS, quorums=(Quorum(ANY_TWO.pods, 1),)), id="a gang that starts with one"),
        pytest.param(ask(*CLAIMING), id="pods that no node would do for"),
    ],
)
def test_not_asked_for(asked: GangTurn) -> None:
    assert need_of(asked, CLASS) is None


def test_a_request_is_named_after_its_gang_and_goes_with_it() -> None:
    need = need_of(ask(*WORKERS), CLASS)
    assert need is not None
    meta = need.request.metadata
    (owner,) = meta.owner_references
    assert (meta.name, meta.namespace, need.request.spec.provisioning_class_name) == ("j", "ns", CLASS)
    assert (owner.kind, owner.name, owner.uid) == ("Job", "j", "u")
    alone = need_of(ask(*WORKERS, carrier=None), CLASS)
    assert alone is not None
    (owner,) = alone.request.metadata.owner_references
    assert (alone.request.metadata.name, owner.kind, owner.name) == ("w0", "Pod", "w0")


def test_the_same_need_is_the_same_request_in_whatever_order_the_pods_came() -> None:
    one, other = need_of(ask(LEAD, *WORKERS), CLASS), need_of(ask(*reversed(WORKERS), LEAD), CLASS)
    assert one is not None
    assert other is not None
    assert one.request == other.request
