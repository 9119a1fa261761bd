"""What of a PodGroup is due: rows 3.2 to 3.20 of KEP-34's checklist and pitfalls 8, 14 and 15."""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.core import Pod
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.ours.elastic import HELD_ANNOTATION
from muster.api.podgroups import coscheduling, kep, volcano
from muster.controllers.gangs import DueTurns, Members, gang_of
from muster.controllers.integrations.table import gang_sources
from muster.controllers.podgroup.gang import PodGroups
from muster.jobs.podgroup.record import NATIVE

GROUPS = PodGroups(native=True)
KEP, LABEL, TASK = "scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group", "volcano.sh/task-spec"


def pod(name: str, *, phase: str = "Pending", node: str = "", task: str = "", group: str = "g", **spec: Any) -> Pod:
    annotations = {KEP: group} | ({TASK: task} if task else {})
    meta = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "annotations": annotations}
    created = {"creationTimestamp": "2026-01-02T03:04:05Z"}
    return msgspec.convert(
        {"metadata": meta | created, "spec": {"nodeName": node, **spec}, "status": {"phase": phase}}, Pod
    )


def leaving(one: Pod) -> Pod:
    """Return the pod as it is once somebody has deleted it."""
    return msgspec.structs.replace(
        one, metadata=msgspec.structs.replace(one.metadata, deletion_timestamp=one.metadata.creation_timestamp)
    )


def pods(names: str, **more: Any) -> tuple[Pod, ...]:
    return tuple(pod(name, **more) for name in names)


def kep_group(minimum: int) -> kep.PodGroup:
    return msgspec.convert(
        {"metadata": {"namespace": "ns", "name": "g"}, "spec": {"minMembers": minimum}}, kep.PodGroup
    )


GATED = {"schedulingGates": [{"name": "x"}]}


@pytest.mark.parametrize(
    ("minimum", "unbound", "bound", "others", "turns"),
    [
        pytest.param(3, "abc", "", (), [("abc", 3)], id="3.17-all at once"),
        pytest.param(3, "abcde", "", (), [("abcde", 3)], id="3.20-the minimum at once, more if there is room"),
        pytest.param(3, "de", "abc", (), [("d", 0), ("e", 0)], id="3.20-what is above it one by one"),
        pytest.param(3, "b", "ac", (), [("b", 1)], id="3.16-a replacement"),
        pytest.param(3, "ab", "", pods("c", phase="Succeeded"), [("ab", 2)], id="14-one has succeeded"),
        pytest.param(2, "abc", "", pods("d", phase="Succeeded"), [("abc", 2)], id="14-enough can live without it"),
        pytest.param(3, "ab", "", pods("c", phase="Failed"), None, id="15-a failed pod is no member"),
        pytest.param(3, "ab", "", pods("c", **GATED), None, id="15-a gated pod is one, but has no node to get"),
        pytest.param(2, "ab", "", pods("c", **GATED), [("ab", 2)], id="15-a gated pod within the slack"),
        pytest.param(3, "bde", "ac", (), [("b", 1), ("d", 0), ("e", 0)], id="a replacement, and more: apart"),
        pytest.param(0, "ab", "", (), [("a", 0), ("b", 0)], id="no minimum"),
        pytest.param(3, "ab", "", (), None, id="3.13-too few"),
    ],
)
def test_turns(minimum: int, unbound: str, bound: str, others: tuple[Pod, ...], turns: Any) -> None:
    due = GROUPS.due(kep_group(minimum), Members(pods(unbound), pods(bound, node="n"), others))
    assert shown(due) == (turns or [])
    assert bool(due.lacking) is (turns is None)
    assert all(turn.surplus is (minimum > 0 and not turn.quorums and not turn.repairs) for turn in due.turns)


def job(uid: str, succeeded: int, *, task: str = "") -> Job:
    template = {"metadata": {"annotations": {TASK: task} if task else {}}}
    document = {"metadata": {"uid": uid}, "spec": {"template": template}, "status": {"succeeded": succeeded}}
    return msgspec.convert(document, Job)


def owned(names: str, uid: str, **more: Any) -> tuple[Pod, ...]:
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid=uid, controller=True)
    return tuple(
        msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, owner_references=(owner,)))
        for one in pods(names, **more)
    )


@pytest.mark.parametrize(
    ("others", "jobs", "turns"),
    [
        pytest.param((), (job("j", 1),), None, id="one of two that lack"),
        pytest.param((), (job("j", 2),), [("ab", 2)], id="both are gone"),
        pytest.param(owned("c", "j", phase="Succeeded"), (job("j", 1),), None, id="one that is there counts once"),
        pytest.param(owned("c", "j", phase="Succeeded"), (job("j", 2),), [("ab", 2)], id="one there, one gone"),
        pytest.param(owned("cd", "j", phase="Succeeded"), (job("j", 1),), [("ab", 2)], id="the Job is behind"),
        pytest.param(owned("c", "j", phase="Succeeded"), (job("k", 1),), [("ab", 2)], id="of two Jobs"),
        pytest.param(owned("c", "old", phase="Succeeded"), (), None, id="a Job made again under the name counts none"),
    ],
)
def test_what_has_succeeded_counts_once_whether_it_is_there_or_gone(
    others: tuple[Pod, ...], jobs: tuple[Job, ...], turns: Any
) -> None:
    due = GROUPS.due(kep_group(4), Members(pods("ab"), others=others, jobs=jobs))
    assert shown(due) == (turns or [])


@pytest.mark.parametrize(
    ("task", "lacking"),
    [("ps", ""), ("worker", 'PodGroup "g" needs 1 pod of task "ps": 0 are there')],
)
def test_what_a_job_counts_is_of_the_task_that_its_pods_are_of(task: str, lacking: str) -> None:
    group = roles({"minMember": 3, "minTaskMember": {"ps": 1, "worker": 2}})
    assert GROUPS.due(group, Members(pods("ab", task="worker"), jobs=(job("j", 1, task=task),))).lacking == lacking


@pytest.mark.parametrize(("held", "turns"), [("4/u", [("c", 1)]), ("4", [("c", 1)]), ("4/another", []), (None, [])])
def test_a_group_that_ran_whole_gets_back_what_is_there(held: str | None, turns: Any) -> None:
    """Its own members are lost; one that another program put on a node starts no group."""
    annotations = {HELD_ANNOTATION: held} if held is not None else {}
    group = msgspec.structs.replace(
        kep_group(4), metadata=ObjectMeta(name="g", namespace="ns", uid="u", annotations=annotations)
    )
    due = GROUPS.due(group, Members(pods("c"), pods("ab", node="n")))
    assert shown(due) == turns
    assert bool(due.lacking) is not bool(turns)


def shown(due: DueTurns) -> list[tuple[str, int]]:
    return [
        (
            "".join(pod.metadata.name for pod in turn.pods),
            len(turn.pods) if turn.repairs else sum(quorum.least for quorum in turn.quorums),
        )
        for turn in due.turns
    ]


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        pytest.param(Members(pods("ab")), 'PodGroup "g" needs 3 pods: 2 are there', id="3.13"),
        pytest.param(Members(pods("a")), 'PodGroup "g" needs 3 pods: 1 is there', id="one"),
        pytest.param(
            Members(pods("ab"), others=pods("c", **GATED)),
            'PodGroup "g" needs 3 pods: 3 are there, 1 of them gated',
            id="15-gated",
        ),
        pytest.param(
            Members(pods("ab"), others=pods("c", schedulerName="other")),
            'PodGroup "g" needs 3 pods: 3 are there, 1 waiting for another scheduler',
            id="3.9",
        ),
    ],
)
def test_what_is_lacking(members: Members, sentence: str) -> None:
    assert GROUPS.due(kep_group(3), members).lacking == sentence


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("c", phase="Failed", schedulerName="other"), id="failed"),
        pytest.param(pod("c", node="n", phase="Failed"), id="failed on a node"),
        pytest.param(leaving(pod("c", schedulerName="other")), id="on its way out"),
        pytest.param(leaving(pod("c", node="n", phase="Running")), id="on its way out of a node"),
    ],
)
@pytest.mark.parametrize("tasks", [False, True])
def test_a_pod_that_gets_no_node_any_more_is_not_waited_for(other: Pod, tasks: bool) -> None:
    group = roles({"minMember": 3, "minTaskMember": {"": 3}}) if tasks else kep_group(3)
    due = GROUPS.due(group, Members(pods("ab"), others=(other,)))
    assert due.lacking == 'PodGroup "g" needs 3 pods: 2 are there'


def test_3_11_nothing_is_due_without_the_group() -> None:
    assert GROUPS.due(None, Members(pods("abc"))) == DueTurns(lacking='PodGroup "g" not found')


def test_3_10_an_empty_annotation_asks_for_another_pod() -> None:
    (alone,) = pods("a", group="")
    assert "submit the pod again" in GROUPS.due(None, Members((alone,))).lacking
    assert GROUPS.key(alone) == "ns/a/refused-uid-a"


def roles(spec: Any) -> volcano.PodGroup:
    return msgspec.convert({"metadata": {"namespace": "ns", "name": "g"}, "spec": spec}, volcano.PodGroup)


TWO_TASKS = {"minMember": 3, "minTaskMember": {"ps": 1, "worker": 2}}


@pytest.mark.parametrize(
    ("unbound", "bound", "quorums", "lacking"),
    [
        pytest.param({"a": "ps", "b": "worker", "c": "worker"}, {}, [3, 1, 2], "", id="all"),
        pytest.param({"c": "worker"}, {"a": "ps", "b": "worker"}, [], "", id="the last, which is a repair"),
        pytest.param({"d": "worker"}, {"a": "ps", "b": "worker", "c": "worker"}, [], "", id="surplus"),
        pytest.param(
            {"a": "worker", "b": "worker", "c": "worker"},
            {},
            [],
            'PodGroup "g" needs 1 pod of task "ps": 0 are there',
            id="a task lacks",
        ),
    ],
)
def test_tasks(unbound: dict[str, str], bound: dict[str, str], quorums: list[int], lacking: str) -> None:
    due = GROUPS.due(
        roles(TWO_TASKS),
        Members(
            tuple(pod(name, task=task) for name, task in unbound.items()),
            tuple(pod(name, task=task, node="n") for name, task in bound.items()),
        ),
    )
    assert [quorum.least for turn in due.turns for quorum in turn.quorums] == quorums
    assert due.lacking == lacking


def labelled(**spec: Any) -> Pod:
    meta = {"namespace": "ns", "name": "p", "uid": "1", "labels": {LABEL: "g"}}
    return msgspec.convert({"metadata": meta, "spec": spec}, Pod)


FIELD = {"schedulingGroup": {"podGroupName": "g"}}


@pytest.mark.parametrize(
    ("member", "kind"),
    [(pod("p"), kep.POD_GROUP), (pod("p"), volcano.POD_GROUP), (labelled(), coscheduling.POD_GROUP),
     (labelled(**FIELD), NATIVE)],
)  # fmt: skip
def test_a_group_has_the_key_of_its_pods(member: Pod, kind: Any) -> None:
    carrier = kind.typed({"metadata": {"namespace": "ns", "name": "g"}, "spec": {}})
    assert GROUPS.key_of(carrier) == GROUPS.key(member)
    # Pitfall 8: of another namespace it is another.
    elsewhere = kind.typed({"metadata": {"namespace": "other", "name": "g"}, "spec": {}})
    assert GROUPS.key_of(elsewhere) != GROUPS.key(member)


def test_a_label_means_no_group_of_those_that_annotations_name() -> None:
    assert GROUPS.key(labelled()) != GROUPS.key(pod("p"))


def test_the_pod_group_goes_before_the_job_and_before_the_group_of_queues() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    annotations = {KEP: "g", "kueue.x-k8s.io/pod-group-total-count": "2"}
    meta = {"ownerReferences": [owner], "annotations": annotations, "labels": {"kueue.x-k8s.io/pod-group-name": "k"}}
    both = msgspec.convert({"metadata": {"namespace": "ns", "name": "p", "uid": "1"} | meta}, Pod)
    key, source = gang_of(both, gang_sources())
    assert (key, type(source)) == ("ns/g/group-name", PodGroups)


def test_what_is_native_means_nothing_unless_it_is_asked_for() -> None:
    named = msgspec.convert({"metadata": {"namespace": "ns", "name": "p", "uid": "1"}, "spec": FIELD}, Pod)
    assert PodGroups().key(named) == ""
    assert NATIVE not in PodGroups().kinds
    assert PodGroups(native=True).key(named) == "ns/g/scheduling-group"


class Watched(Collection[Pod]):
    """Pods, and how many of them were looked at."""

    def __init__(self, *pods: Pod) -> None:
        self.pods = pods
        self.seen = 0

    def __iter__(self) -> Iterator[Pod]:
        for each in self.pods:
            self.seen += 1
            yield each

    def __len__(self) -> int:
        return len(self.pods)

    def __contains__(self, pod: object) -> bool:
        return pod in self.pods


def test_31_a_group_that_is_still_coming_is_not_looked_through() -> None:
    # Each of its pods is an event: to look at all of them each time would take the square of their number.
    unbound, bound = Watched(*pods("abcdefgh")), Watched(*pods("xyz", node="n"))
    assert GROUPS.due(kep_group(100), Members(unbound, bound)).lacking
    assert (unbound.seen, bound.seen) == (1, 0)
