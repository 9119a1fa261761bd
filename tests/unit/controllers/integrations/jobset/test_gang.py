"""Which pods of JobSets are placed together."""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.core import Pod
from muster.api.jobset import JobSet
from muster.controllers.gangs import Members, gang_of
from muster.controllers.integrations.jobset.gang import JobSetGangs
from muster.controllers.integrations.table import gang_sources
from muster.jobs.jobset.gang import is_one_gang, pod_annotations

P = "jobset.sigs.k8s.io"
GANG = "muster.dev/gang"


def role(name: str, replicas: int = 1, pods: int = 1, *after: str, completions: int | None = None) -> dict[str, Any]:
    needed = [{"name": one, "status": "Ready"} for one in after]
    spec = {"parallelism": pods, "completions": completions or pods}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, "dependsOn": needed}


def jobset(*roles: Any, status: Any = None, **spec: Any) -> JobSet:
    meta = {"name": "j", "namespace": "ns", "uid": "u", "annotations": {GANG: "true"}}
    document = {"metadata": meta, "spec": {"replicatedJobs": roles, **spec}, "status": status or {}}
    return msgspec.convert(document, JobSet)


def pod(text: str, **metadata: Any) -> Pod:
    """`ROLE-INDEX-RANK`, and what it does: `!` bound, `+` succeeded, `~` on its way out, `'` of the second attempt."""
    name = text.rstrip("!+~'")
    of, index, _ = name.split("-")
    labels = {
        f"{P}/jobset-name": "j",
        f"{P}/jobset-uid": "u",
        f"{P}/replicatedjob-name": of,
        f"{P}/job-index": index,
        f"{P}/restart-attempt": "1" if "'" in text else "0",
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"j-{of}-{index}", "uid": f"{of}{index}"}
    meta: dict[str, Any] = {
        "name": text,
        "uid": text,
        "namespace": "ns",
        "labels": labels,
        "annotations": {GANG: "true"},
        "ownerReferences": [owner | {"controller": True}],
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **metadata,
    }
    if "~" in text:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    node = {"nodeName": "n"} if set(text) & set("!+~") else {}
    status = {"phase": "Succeeded" if "+" in text else "Pending"}
    return msgspec.convert({"metadata": meta, "spec": node, "status": status}, Pod)


def job(uid: str, **status: Any) -> Job:
    """`ROLEINDEX` is the UID of the Job whose pods `pod` makes."""
    document = {"metadata": {"name": "j", "namespace": "ns", "uid": uid}, "spec": {"completions": 4}, "status": status}
    return msgspec.convert(document, Job)


def turns(made: JobSet | None, names: Iterable[str], jobs: Collection[Job] = ()) -> list[str]:
    pods = [pod(name) for name in names]
    unbound = [one for one in pods if not one.spec.node_name]
    bound = [one for one in pods if "!" in one.metadata.name]
    others = [one for one in pods if one not in unbound and one not in bound]
    if not unbound:
        return []
    due = JobSetGangs().due(made, Members(unbound, bound, others, jobs))
    return [" ".join(sorted(one.metadata.name for one in turn.pods)) for turn in due.turns]


TWO = (role("a", 2, 2), role("b"))
AFTER = (role("a"), role("b", 2, 1, "a"), role("c", 1, 1, "a"))
ONE_DONE = {"replicatedJobsStatus": [{"name": "a", "succeeded": 1}]}
RESTARTED = {"restarts": 1}
SUSPENDED = {
    "conditions": [
        {"type": "muster.dev/Interrupted", "status": "True", "message": "1 interruption (1 by suspension), the last: x"}
    ]
}
RESTARTING = ONE_DONE | RESTARTED | {"conditions": [{"type": "RestartingJobSet", "status": "True"}]}


@pytest.mark.parametrize(
    ("made", "pods", "expected"),
    [
        pytest.param(None, "a-0-0", [], id="its JobSet is not seen yet"),
        pytest.param(jobset(*TWO), "a-0-0 a-0-1 a-1-0 a-1-1", [], id="the other role has none yet"),
        pytest.param(jobset(*TWO), "a-0-0 a-0-1 a-1-0 b-0-0", [], id="a Job lacks one"),
        pytest.param(
            jobset(*TWO), "a-0-0 a-0-1 a-1-0 a-1-1 b-0-0", ["a-0-0 a-0-1 a-1-0 a-1-1 b-0-0"], id="all are there"
        ),
        pytest.param(jobset(role("a"), role("b", 0)), "a-0-0", ["a-0-0"], id="a role without replicas"),
        pytest.param(jobset(role("a"), role("b", 2, 0)), "a-0-0", ["a-0-0"], id="a role without pods"),
        pytest.param(jobset(*TWO), "a-0-0! a-0-1! a-1-0! a-1-1 b-0-0!", ["a-1-1"], id="one was made anew: others run"),
        pytest.param(
            jobset(*TWO), "a-0-0+ a-0-1! a-1-0+ a-1-1 b-0-0+", ["a-1-1"], id="what has succeeded is not waited for"
        ),
        pytest.param(
            jobset(*TWO, status=ONE_DONE), "a-1-0 a-1-1 b-0-0", ["a-1-0 a-1-1 b-0-0"], id="a Job is done, its pods gone"
        ),
        pytest.param(
            jobset(*TWO, status=RESTARTED), "a-0-0+ a-0-1! b-0-0'", [], id="pods of the attempt before do not count"
        ),
        pytest.param(
            jobset(*TWO), "a-0-0! a-0-1! a-1-0' a-1-1'", [], id="nor do they before the status tells of the restart"
        ),
        pytest.param(
            jobset(*TWO, status=RESTARTING), "a-1-0' a-1-1' b-0-0'", [], id="nor do Jobs that had succeeded in it"
        ),
        pytest.param(
            jobset(*TWO, status=SUSPENDED), "a-0-0+ a-0-1' b-0-0'", [], id="resumed, it comes whole, not bit by bit"
        ),
        pytest.param(
            jobset(*TWO, status=SUSPENDED),
            "a-0-0 a-0-1 a-1-0 a-1-1 b-0-0",
            ["a-0-0 a-0-1 a-1-0 a-1-1 b-0-0"],
            id="JobSet's own controller counts no suspension in the labels of pods",
        ),
        pytest.param(jobset(*TWO), "a-0-0~ a-0-1~ a-1-0 a-1-1 b-0-0", [], id="nor what is on its way out"),
        pytest.param(
            jobset(role("a", 3, 2), role("b")),
            "a-0-0! a-0-1! a-1-0 a-1-1 a-2-0 b-0-0!",
            ["a-1-0 a-1-1"],
            id="to one that runs a Job comes whole, and waits for no other",
        ),
        pytest.param(
            jobset(role("a", 1, 2, completions=9), role("b")),
            "a-0-0+ a-0-1! a-0-2 b-0-0",
            ["b-0-0", "a-0-2"],
            id="the next wave of a Job is no repair",
        ),
        pytest.param(
            jobset(role("a", 1, 2, completions=9), role("b", 2, 1, "a")),
            "a-0-0+ a-0-1! a-0-2 b-0-0! b-1-0",
            ["b-1-0", "a-0-2"],
            id="what a later stage lost comes before the next wave of an earlier one",
        ),
        pytest.param(jobset(*AFTER), "a-0-0", ["a-0-0"], id="those that wait for others are not waited for"),
        pytest.param(jobset(*AFTER), "a-0-0! b-0-0 c-0-0", [], id="they are a gang themselves"),
        pytest.param(
            jobset(*AFTER), "a-0-0! b-0-0 b-1-0 c-0-0", ["b-0-0 b-1-0 c-0-0"], id="all that waited for the same"
        ),
        pytest.param(
            jobset(*TWO, startupPolicy={"startupPolicyOrder": "InOrder"}),
            "a-0-0 a-0-1 a-1-0 a-1-1",
            ["a-0-0 a-0-1 a-1-0 a-1-1"],
            id="in order each role is a stage",
        ),
        pytest.param(
            jobset(*TWO, groupSchedulingConfig={"targetReplicatedJobs": ["a"]}),
            "a-0-0 a-0-1 a-1-0 a-1-1",
            ["a-0-0 a-0-1 a-1-0 a-1-1"],
            id="of a group only its roles",
        ),
        pytest.param(
            jobset(*TWO, groupSchedulingConfig={"targetReplicatedJobs": ["b"]}),
            "a-0-0 a-0-1",
            ["a-0-0", "a-0-1"],
            id="what says that it belongs and does not goes by itself",
        ),
    ],
)
def test_a_stage_goes_together_once_it_is_there(made, pods, expected):
    assert turns(made, pods.split()) == expected


FOUR = (role("a", 1, 4), role("b"))


@pytest.mark.parametrize(
    ("roles", "pods", "jobs", "expected"),
    [
        pytest.param(FOUR, "a-0-0 a-0-1 a-0-2 b-0-0", [], [], id="the Job is not seen yet"),
        pytest.param(
            FOUR, "a-0-0 a-0-1 a-0-2 b-0-0", [job("a0", succeeded=1)], ["a-0-0 a-0-1 a-0-2 b-0-0"], id="has succeeded"
        ),
        pytest.param(
            FOUR,
            "a-0-0 a-0-1 b-0-0",
            [job("a0", succeeded=1, failedIndexes="3")],
            ["a-0-0 a-0-1 b-0-0"],
            id="an index has failed",
        ),
        pytest.param(FOUR, "a-0-0 a-0-1 b-0-0", [job("a0", succeeded=1)], [], id="one is still to be made"),
        pytest.param(FOUR, "a-0-0 a-0-1 a-0-2 b-0-0", [job("b0", succeeded=1)], [], id="another Job's"),
        pytest.param(FOUR, "a-0-0 a-0-1 a-0-2 b-0-0", [job("old", succeeded=1)], [], id="of a Job of the same name"),
        pytest.param(
            (role("a", 1, 2, completions=9), role("b")),
            "a-0-0 b-0-0",
            [job("a0", succeeded=5)],
            [],
            id="of a Job with more to do than it does side by side",
        ),
        pytest.param(
            (role("a", 1, 2, completions=9), role("b")),
            "a-0-0 b-0-0",
            [job("a0", succeeded=8)],
            ["a-0-0 b-0-0"],
            id="its last",
        ),
    ],
)
def test_no_pod_is_waited_for_that_its_job_does_not_make_again(roles, pods, jobs, expected):
    assert turns(jobset(*roles), pods.split(), jobs) == expected


@pytest.mark.parametrize(
    ("annotations", "spec", "roles"),
    [
        ({}, {}, ""),
        ({GANG: "false"}, {}, ""),
        ({GANG: "true"}, {}, "ab"),
        ({GANG: "true"}, {"groupSchedulingConfig": {}}, "ab"),
        ({GANG: "true"}, {"groupSchedulingConfig": {"targetReplicatedJobs": ["b"]}}, "b"),
        ({}, {"groupSchedulingConfig": {}}, ""),
    ],
)
def test_the_pods_of_a_jobset_that_asks_for_it_say_so(annotations, spec, roles):
    document = {"metadata": {"annotations": annotations}, "spec": {"replicatedJobs": TWO, **spec}}
    made = msgspec.convert(document, JobSet)
    marked = [one.name for one in made.spec.replicated_jobs if pod_annotations(made, one) == {GANG: "true"}]
    assert "".join(marked) == roles


@pytest.mark.parametrize(
    ("asks", "says", "roles", "one"),
    [
        ("", "", (role("a", 1, 4),), True),
        ("", "false", (role("a", 1, 4),), False),
        ("", "", (role("a", 2, 4),), False),
        ("", "", TWO, False),
        ("true", "", TWO, True),
        ("true", "false", (role("a", 1, 4),), True),
        ("true", "", AFTER, False),
    ],
)
def test_it_is_one_gang_if_it_asks_for_it_or_is_one_job(asks, says, roles, one):
    """says: what its Jobs' templates say."""
    described = [
        each | {"template": each["template"] | {"metadata": {"annotations": {GANG: says}} if says else {}}}
        for each in roles
    ]
    meta = {"name": "j", "annotations": {GANG: asks} if asks else {}}
    assert is_one_gang(msgspec.convert({"metadata": meta, "spec": {"replicatedJobs": described}}, JobSet)) is one


@pytest.mark.parametrize(
    ("metadata", "key"),
    [
        ({}, "ns/j/u"),
        ({"annotations": {}}, "ns/j-a-0/a0"),
        ({"annotations": {GANG: "false"}}, "ns/j-a-0/a0"),
        ({"labels": {}}, "ns/j-a-0/a0"),
        ({"ownerReferences": []}, "ns/a-0-0"),
    ],
)
def test_without_a_word_each_job_is_a_gang_of_its_own(metadata, key):
    assert gang_of(pod("a-0-0", **metadata), gang_sources())[0] == key


def test_the_carrier_has_the_key_of_its_pods():
    assert JobSetGangs().key_of(jobset()) == JobSetGangs().key(pod("a-0-0"))
