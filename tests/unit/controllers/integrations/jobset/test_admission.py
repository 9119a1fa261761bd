"""What a JobSet gets on its way in, and what is refused; the cases and sentences are upstream's (jobset_webhook)."""

import msgspec
import pytest
from tests.unit.managed_world import DEFAULT, World

from muster.api.jobset import JobSet
from muster.api.managed.surroundings import Settings
from muster.controllers.integrations.admission import find_errors, list_default_patches
from muster.controllers.integrations.jobset.integration import JobSetIntegration

KIND = JobSetIntegration()
K = "kueue.x-k8s.io"
QUEUE = f"{K}/queue-name"
REQUIRED, PREFERRED = f"{K}/podset-required-topology", f"{K}/podset-preferred-topology"
SLICE, SLICE_SIZE, GROUP = (f"{K}/podset-slice-required-topology", f"{K}/podset-slice-size", f"{K}/podset-group-name")
ELASTIC = f"{K}/elastic-job"
GANG = "metadata.annotations[muster.dev/gang]"
SIZED = {"metadata": {"annotations": {ELASTIC: "true"}}}
SUSPENDED = {"spec": {"suspend": True}}
AWAY = {"spec": {"managedBy": f"{K}/multikueue"}}
FAR = World({"lq": "far"}, elsewhere=("far",))


def role(name, pods=1, replicas=1, /, **annotations):
    template = {"metadata": {"annotations": annotations.pop("annotations", {})}}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    said = {"muster.dev/gang": annotations["gang"]} if annotations else {}
    return {"name": name, "replicas": replicas, "template": {"metadata": {"annotations": said}, "spec": spec}}


def jobset(*roles, labels=None, annotations=None, runs=False, **spec):
    meta = {"name": "j", "namespace": "ns", "labels": labels or {}, "annotations": annotations or {}}
    document = {"metadata": meta, "spec": {"suspend": not runs, "replicatedJobs": list(roles), **spec}}
    return msgspec.convert(document, JobSet)


ASKS = role("a", annotations={REQUIRED: "cloud.com/block"})


@pytest.mark.parametrize(
    ("made", "around", "gets"),
    [
        (jobset(runs=True), World(), []),
        (jobset(runs=True), DEFAULT, [{"metadata": {"labels": {QUEUE: "default"}}}, SUSPENDED, SIZED]),
        (jobset(labels={QUEUE: "lq"}), DEFAULT, [SUSPENDED, SIZED]),
        (jobset(labels={QUEUE: "lq"}, annotations={ELASTIC: "false"}), DEFAULT, [SUSPENDED]),
        (jobset(ASKS, labels={QUEUE: "lq"}), DEFAULT, [SUSPENDED]),
        (jobset(labels={QUEUE: "lq", f"{K}/prebuilt-workload-name": "w"}), DEFAULT, [SUSPENDED]),
        (jobset(labels={QUEUE: "lq"}), FAR, [SUSPENDED, AWAY]),
        (jobset(labels={QUEUE: "lq"}, managedBy="jobset.sigs.k8s.io/jobset-controller"), FAR, [SUSPENDED, AWAY]),
        (jobset(labels={QUEUE: "lq"}, managedBy="example.com/foo"), FAR, []),
    ],
)
def test_what_a_new_jobset_gets(made, around, gets):
    assert list_default_patches(KIND, made, "ns", around, Settings()) == gets


def path(number, key=""):
    return f"spec.replicatedJobs[{number}].template.spec.template.metadata.annotations" + (f"[{key}]" if key else "")


def grouped(name, pods, replicas, group, level="cloud.com/block", way=REQUIRED):
    return role(name, pods, replicas, annotations={way: level, GROUP: group})


BOUNDS = "the bounds between which a Job is moved mean nothing for a JobSet"
LISTED = f'["{REQUIRED}", "{PREFERRED}", "{K}/podset-unconstrained-topology"]'
ONE_WAY = f"must not contain more than one topology annotation: {LISTED}"
OTHERS = f"must specify '{REQUIRED}' or '{PREFERRED}' topology consistent with '%s' in group 'g'"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        pytest.param(jobset(labels={QUEUE: "queue"}), [], id="simple"),
        pytest.param(jobset(role("a", gang="false")), [], id="no gang"),
        pytest.param(
            jobset(role("a"), role("b", gang="no")),
            [f'spec.replicatedJobs[1].template.{GANG}: Invalid value: "no": must be "true" or "false"'],
            id="a gang or not",
        ),
        pytest.param(
            jobset(labels={QUEUE: "queue", f"{K}/prebuilt-workload-name": "prebuilt-workload"}), [], id="prebuilt"
        ),
        pytest.param(
            jobset(
                role("launcher", annotations={REQUIRED: "cloud.com/block"}),
                role("worker", annotations={REQUIRED: "cloud.com/block"}),
            ),
            [],
            id="a topology",
        ),
        pytest.param(
            jobset(role("a"), role("b", annotations={REQUIRED: "cloud.com/block", PREFERRED: "cloud.com/block"})),
            [f'{path(1)}: Invalid value: "cloud.com/block": {ONE_WAY}'],
            id="two ways",
        ),
        pytest.param(
            jobset(
                role("a", 1, 2, annotations={REQUIRED: "cloud.com/b", SLICE: "cloud.com/b", SLICE_SIZE: "20"}),
            ),
            [f'{path(0, SLICE_SIZE)}: Invalid value: "20": must not be greater than pod set count 2'],
            id="slices larger than all",
        ),
        pytest.param(jobset(grouped("a", 1, 1, "g"), grouped("b", 1, 4, "g")), [], id="a group"),
        pytest.param(
            jobset(
                grouped("a", 1, 1, "one"),
                grouped("b", 1, 1, "three"),
                grouped("c", 1, 2, "three"),
                grouped("d", 2, 2, "three"),
            ),
            [
                f'{path(n, GROUP)}: Invalid value: "{name}": can only define groups of exactly 2 pod sets, '
                f"got: {count} pod set(s)"
                for n, name, count in ((0, "one", 1), (1, "three", 3), (2, "three", 3), (3, "three", 3))
            ],
            id="groups of other sizes",
        ),
        pytest.param(
            jobset(grouped("a", 1, 2, "g"), grouped("b", 3, 1, "g")),
            [
                f'{path(n, GROUP)}: Invalid value: "g": can only define groups where at least one pod set has only '
                "1 replica, got: 2 replica(s) and 3 replica(s) in the group"
                for n in (0, 1)
            ],
            id="a group without a leader",
        ),
        pytest.param(
            jobset(grouped("a", 1, 1, "g", "cloud.com/rack"), grouped("b", 1, 2, "g")),
            [f"{path(0)}: Invalid value: {OTHERS % path(1)}", f"{path(1)}: Invalid value: {OTHERS % path(0)}"],
            id="a group at two levels",
        ),
        pytest.param(
            jobset(grouped("a", 1, 1, "g"), grouped("b", 1, 2, "g", way=PREFERRED)),
            [f"{path(0)}: Invalid value: {OTHERS % path(1)}", f"{path(1)}: Invalid value: {OTHERS % path(0)}"],
            id="a group in two ways",
        ),
        # Beyond upstream: what its Workload could not say is refused at once.
        pytest.param(jobset(*(role(f"r{n}") for n in range(18)), labels={QUEUE: "q"}), [], id="18 roles"),
        pytest.param(jobset(*(role(f"r{n}") for n in range(19))), [], id="19 roles in no queue"),
        pytest.param(
            jobset(*(role(f"r{n}") for n in range(19)), labels={QUEUE: "q"}),
            ["spec.replicatedJobs: Too many: 19: must have at most 18 items"],
            id="19 roles",
        ),
        pytest.param(
            jobset(role("a"), labels={QUEUE: "q"}, annotations={"muster.dev/elastic": "1:2"}),
            [f"metadata.annotations[muster.dev/elastic]: Forbidden: {BOUNDS}"],
            id="elastic",
        ),
    ],
)
def test_what_is_wrong_with_a_jobset(made, said):
    assert [str(one) for one in find_errors(KIND, made, None, DEFAULT)] == said


FOLLOWS = {ELASTIC: "true"}
IN_QUEUE = {QUEUE: "q"}
SMALL, LARGE = (role("a", 2, 1), role("b")), (role("a", 2, 2), role("b"))
KEEPS = "spec.replicatedJobs[0]: Forbidden: the number of pods cannot change while the JobSet runs with quota, unless"


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        pytest.param(jobset(*SMALL, labels=IN_QUEUE), jobset(*LARGE, labels=IN_QUEUE), [], id="while it waits"),
        pytest.param(
            jobset(*SMALL, labels=IN_QUEUE, runs=True), jobset(*LARGE, labels=IN_QUEUE, runs=True), [KEEPS], id="grows"
        ),
        pytest.param(
            jobset(*LARGE, labels=IN_QUEUE, runs=True),
            jobset(*SMALL, labels=IN_QUEUE, runs=True),
            [KEEPS],
            id="shrinks",
        ),
        pytest.param(
            jobset(*SMALL, labels=IN_QUEUE, annotations=FOLLOWS, runs=True),
            jobset(*LARGE, labels=IN_QUEUE, annotations=FOLLOWS, runs=True),
            [],
            id="quota follows its size",
        ),
        pytest.param(
            jobset(*SMALL, labels=IN_QUEUE), jobset(*LARGE, labels=IN_QUEUE, runs=True), [], id="as it starts"
        ),
        pytest.param(jobset(*SMALL, labels=IN_QUEUE, runs=True), jobset(*LARGE, labels=IN_QUEUE), [], id="as it stops"),
        pytest.param(jobset(*SMALL, runs=True), jobset(*LARGE, runs=True), [], id="in no queue"),
        pytest.param(
            jobset(role("a", 4, 1), labels=IN_QUEUE, runs=True),
            jobset(role("a", 2, 2), labels=IN_QUEUE, runs=True),
            [],
            id="of the same size",
        ),
        pytest.param(
            jobset(*(role(f"r{n}") for n in range(19)), labels=IN_QUEUE, runs=True),
            jobset(*(role(f"r{n}") for n in range(19)), labels=IN_QUEUE | {"x": "y"}, runs=True),
            [],
            id="too many, as they were",
        ),
    ],
)
def test_its_size_is_that_of_its_quota_while_it_runs(before, now, said):
    found = [str(one) for one in find_errors(KIND, now, before, DEFAULT)]
    assert [text[: len(KEEPS)] for text in found] == said
