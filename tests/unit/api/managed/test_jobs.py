"""What a job gets on its way in, and what is refused; the sentences are upstream's (jobframework, job_webhook)."""

from dataclasses import dataclass, field

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.kueue import LocalQueue
from muster.api.managed.jobs import Arrival, arrival, counts_follow, prebuilt_name, validate_create, validate_update
from muster.api.managed.surroundings import Settings
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.selectors import parse_label_selector

K = "kueue.x-k8s.io"
QUEUE, CLASS = f"{K}/queue-name", f"{K}/priority-class"
LONGEST, PREBUILT = f"{K}/max-exec-time-seconds", f"{K}/prebuilt-workload-name"
MINIMUM, TOGETHER = f"{K}/job-min-parallelism", f"{K}/job-completions-equal-parallelism"
ELASTIC, GATES = f"{K}/elastic-job", f"{K}/admission-gated-by"
OURS = "muster.dev/elastic"
PARENT = OwnerReference(api_version="batch/v1", kind="Job", name="parent", uid="p", controller=True)


@dataclass
class World:
    """Surroundings: LocalQueues by name, with their ClusterQueues."""

    queues: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    parent: ObjectMeta | None = None
    classes: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()

    def local_queue(self, namespace, name):
        spec = {"clusterQueue": self.queues.get(name)}
        return msgspec.convert({"metadata": {"name": name}, "spec": spec}, LocalQueue) if name in self.queues else None

    def namespace_labels(self, namespace):
        return self.labels

    def owner(self, namespace, reference):
        return self.parent

    def has_priority_class(self, name):
        return name in self.classes

    def goes_elsewhere(self, cluster_queue):
        return cluster_queue in self.elsewhere


DEFAULT = World({"default": "cq"})
SELECTS = Settings(selects=parse_label_selector("managed=yes"))
ALL = Settings(without_queue=True, selects=parse_label_selector("managed=yes"))


@pytest.mark.parametrize(
    ("labels", "owned", "managed_by", "world", "settings", "gets"),
    [
        ({}, False, None, World(), Settings(), Arrival()),
        ({}, False, None, World({"other": "cq"}), Settings(), Arrival()),
        ({}, False, None, DEFAULT, Settings(), Arrival(queue="default", suspend=True)),
        ({QUEUE: "lq"}, False, None, DEFAULT, Settings(), Arrival(suspend=True)),
        ({QUEUE: "lq"}, False, None, World(), Settings(), Arrival(suspend=True)),
        (
            {},
            False,
            None,
            World({"default": "cq"}, {"managed": "yes"}),
            SELECTS,
            Arrival(queue="default", suspend=True),
        ),
        ({}, False, None, DEFAULT, SELECTS, Arrival()),
        ({QUEUE: "lq"}, False, None, DEFAULT, SELECTS, Arrival()),
        ({}, False, None, World(labels={"managed": "yes"}), ALL, Arrival(suspend=True)),
        ({}, False, None, World(), ALL, Arrival()),
        (
            {},
            True,
            None,
            World({"default": "cq"}, parent=ObjectMeta(uid="p", labels={QUEUE: "lq"})),
            Settings(),
            Arrival(),
        ),
        (
            {},
            True,
            None,
            World({"default": "cq"}, parent=ObjectMeta(uid="p")),
            Settings(),
            Arrival(),
        ),
        (
            {QUEUE: "lq"},
            False,
            None,
            World(classes=("default",)),
            Settings(),
            Arrival(priority_class="default", suspend=True),
        ),
        ({QUEUE: "lq", CLASS: "mine"}, False, None, World(classes=("default",)), Settings(), Arrival(suspend=True)),
        (
            {QUEUE: "lq"},
            False,
            None,
            World(classes=("default",)),
            Settings(default_priority=False),
            Arrival(suspend=True),
        ),
        (
            {QUEUE: "lq"},
            False,
            None,
            World({"lq": "far"}, elsewhere=("far",)),
            Settings(),
            Arrival(suspend=True, managed_by=f"{K}/multikueue"),
        ),
        (
            {QUEUE: "lq"},
            False,
            "kubernetes.io/job-controller",
            World({"lq": "far"}, elsewhere=("far",)),
            Settings(),
            Arrival(suspend=True, managed_by=f"{K}/multikueue"),
        ),
        (
            {QUEUE: "lq"},
            False,
            "else.io/x",
            World({"lq": "far"}, elsewhere=("far",)),
            Settings(),
            Arrival(suspend=True),
        ),
    ],
    ids=[
        "nothing changes without queues",
        "nor with others than the default",
        "the default queue",
        "a queue",
        "a queue that does not exist yet",
        "a namespace that is managed",
        "pitfall-43 one that is not: no default",
        "pitfall-43 one that is not: not suspended either",
        "jobs without a queue",
        "jobs without a queue, elsewhere",
        "pitfall-42 a child of a job that queues",
        "a child of one that does not",
        "the default priority",
        "its own priority",
        "no default priority",
        "another cluster",
        "another cluster, by name of the usual controller",
        "a controller of its own",
    ],
)
def test_what_a_job_gets(labels, owned, managed_by, world, settings, gets):
    meta = ObjectMeta(name="j", namespace="ns", labels=labels, owner_references=(PARENT,) if owned else ())
    assert arrival(meta, managed_by, world, settings) == gets


def job(labels=None, annotations=None, *, runs=False, **spec):
    meta = {"name": "j", "namespace": "ns", "labels": labels or {}, "annotations": annotations or {}}
    return msgspec.convert({"metadata": meta, "spec": {"suspend": not runs, **spec}}, Job)


FOUR = {"parallelism": 4, "completions": 4, "completionMode": "Indexed"}


def owned_by(kind, api_version):
    return OwnerReference(api_version=api_version, kind=kind, name="x", uid="x", controller=True)


@pytest.mark.parametrize(
    ("owner", "labels", "settings", "gets"),
    [
        (owned_by("JobSet", "jobset.x-k8s.io/v1alpha2"), {}, Settings(), Arrival()),
        (owned_by("JobSet", "jobset.x-k8s.io/v1alpha2"), {QUEUE: "lq"}, Settings(), Arrival(suspend=True)),
        (
            owned_by("JobSet", "jobset.x-k8s.io/v1alpha2"),
            {},
            Settings(without_queue=True),
            Arrival("default", suspend=True),
        ),
        (owned_by("CronJob", "batch/v1"), {}, Settings(), Arrival("default", suspend=True)),
        (
            OwnerReference(api_version="example.com/v1", kind="Run", name="x", uid="x"),
            {},
            Settings(),
            Arrival("default", suspend=True),
        ),
    ],
    ids=["not drawn", "its own word", "all jobs are managed", "a CronJob leaves its Jobs alone", "only owned, not run"],
)
def test_a_job_that_another_controller_runs_is_not_drawn_into_the_default_queue(owner, labels, settings, gets):
    meta = ObjectMeta(namespace="ns", labels=labels, owner_references=(owner,))
    assert arrival(meta, None, DEFAULT, settings) == gets


@pytest.mark.parametrize(
    ("made", "follows"),
    [
        pytest.param(job({QUEUE: "lq"}, **FOUR), True, id="a pod for each index"),
        pytest.param(job(managedBy="kubernetes.io/job-controller", **FOUR), True, id="the usual controller by name"),
        pytest.param(job(annotations={"muster.dev/gang": "true"}, **FOUR), True, id="a gang"),
        pytest.param(job(**FOUR | {"parallelism": 2}), False, id="fewer pods than indexes"),
        pytest.param(job(parallelism=4, completions=4), False, id="pods without an index"),
        pytest.param(job(annotations={OURS: "1:4"}, **FOUR), False, id="elastic in our way"),
        pytest.param(job(annotations={ELASTIC: "false"}, **FOUR), False, id="not to be elastic"),
        pytest.param(job(annotations={MINIMUM: "2"}, **FOUR), False, id="admitted in part"),
        pytest.param(job(annotations={"muster.dev/gang": "false"}, **FOUR), False, id="not a gang"),
        pytest.param(job({PREBUILT: "w"}, **FOUR), False, id="a Workload of somebody else"),
        pytest.param(job(managedBy="else.io/x", **FOUR), False, id="a controller of its own"),
    ],
)
def test_whose_workload_follows_its_size(made, follows):
    assert counts_follow(made) is follows


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (job({QUEUE: "lq"}), ""),
        (
            job({QUEUE: "my_queue"}),
            f'metadata.labels[{QUEUE}]: Invalid value: "my_queue": a lowercase RFC 1123 subdomain',
        ),
        (job({PREBUILT: "a_b"}), f"metadata.labels[{PREBUILT}]: Invalid value"),
        (job({}, {PREBUILT: "a_b"}), f"metadata.annotations[{PREBUILT}]: Invalid value"),
        (job({LONGEST: "20"}), ""),
        (
            job({LONGEST: "abc"}),
            f'metadata.labels[{LONGEST}]: Invalid value: "abc": strconv.Atoi: parsing "abc": invalid',
        ),
        (job({LONGEST: "0"}), f"metadata.labels[{LONGEST}]: Invalid value: 0: should be greater than 0"),
        (job({}, {MINIMUM: "2"}, **FOUR), ""),
        (
            job({}, {MINIMUM: "4"}, **FOUR),
            f"metadata.annotations[{MINIMUM}]: Invalid value: 4: should be between 0 and 3",
        ),
        (
            job({}, {MINIMUM: "0"}, **FOUR),
            f"metadata.annotations[{MINIMUM}]: Invalid value: 0: should be between 0 and 3",
        ),
        (job({}, {MINIMUM: "NaN"}, **FOUR), f'metadata.annotations[{MINIMUM}]: Invalid value: "NaN": strconv.Atoi'),
        (
            job({}, {MINIMUM: "2", ELASTIC: "true"}, **FOUR),
            f'metadata.annotations[{MINIMUM}]: Invalid value: "2": partial admission and elastic job',
        ),
        (job({}, {TOGETHER: "true"}, **FOUR), ""),
        (job({}, {TOGETHER: "-"}, **FOUR), f'metadata.annotations[{TOGETHER}]: Invalid value: "-": strconv.ParseBool'),
        (
            job({}, {TOGETHER: "true"}, parallelism=4, completions=4),
            f'metadata.annotations[{TOGETHER}]: Invalid value: "true": should not be enabled for NonIndexed jobs',
        ),
        (
            job({}, {TOGETHER: "true"}, **FOUR | {"completions": 6}),
            f"spec.completions: Invalid value: 6: should be equal to parallelism when {TOGETHER} annotation is true",
        ),
        (job({}, {GATES: "example.com/a"}), ""),
        (job({}, {GATES: "a"}), f"metadata.annotations[{GATES}]: Invalid value"),
        (
            job({}, {GATES: "a.io/b,,"}),
            f'metadata.annotations[{GATES}]: Invalid value: "a.io/b,,": cannot contain empty',
        ),
        (job({}, {"muster.dev/wait-for-pods-ready": "soon"}), "metadata.annotations[muster.dev/wait-for-pods-ready]"),
    ],
)
def test_new_jobs(made, said):
    errors = [str(error) for error in validate_create(made)]
    assert errors[0].startswith(said) if said else errors == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (job({QUEUE: "a"}), job({QUEUE: "b"}), ""),
        (
            job({QUEUE: "a"}, runs=True),
            job({QUEUE: "b"}, runs=True),
            f'metadata.labels[{QUEUE}]: Invalid value: "b": field is immutable',
        ),
        (job({QUEUE: "a"}, runs=True), job({QUEUE: "b"}), ""),
        (job({QUEUE: "a"}), job({QUEUE: "b"}, runs=True), f"metadata.labels[{QUEUE}]: Invalid value"),
        (
            job({QUEUE: "a"}),
            job(),
            f'metadata.labels[{QUEUE}]: Invalid value: "": queue-name must not be empty',
        ),
        (
            job({PREBUILT: "a"}, runs=True),
            job({PREBUILT: "b"}, runs=True),
            f"metadata.labels[{PREBUILT}]: Invalid value",
        ),
        (job({PREBUILT: "a"}), job({PREBUILT: "b"}), ""),
        (job({LONGEST: "1"}), job({LONGEST: "2"}), ""),
        (
            job({LONGEST: "1"}),
            job({LONGEST: "2"}, runs=True),
            f'metadata.labels[{LONGEST}]: Invalid value: "2": field is immutable',
        ),
        (job({LONGEST: "1"}, runs=True), job({LONGEST: "2"}), f"metadata.labels[{LONGEST}]: Invalid value"),
        (job(), job({CLASS: "a"}), ""),
        (
            job(runs=True),
            job({CLASS: "a"}, runs=True),
            f'metadata.labels[{CLASS}]: Invalid value: "a": WorkloadPriorityClass cannot be added',
        ),
        (job({CLASS: "a"}, runs=True), job({CLASS: "b"}, runs=True), ""),
        (
            job({CLASS: "a"}),
            job(),
            f'metadata.labels[{CLASS}]: Invalid value: "": WorkloadPriorityClass cannot be removed from a workload',
        ),
        (
            job({}, {ELASTIC: "true"}),
            job(),
            f"metadata.annotations[{ELASTIC}]: Invalid value: false: field is immutable",
        ),
        (
            job(),
            job({}, {ELASTIC: "true"}),
            f"metadata.annotations[{ELASTIC}]: Invalid value: true: field is immutable",
        ),
        (
            job({QUEUE: "a"}, {OURS: "1:4"}, runs=True),
            job({QUEUE: "a"}, runs=True),
            f"metadata.annotations[{OURS}]: Invalid value: false: field is immutable",
        ),
        (
            job({QUEUE: "a"}, runs=True),
            job({QUEUE: "a"}, {OURS: "1:4"}, runs=True),
            f"metadata.annotations[{OURS}]: Invalid value: true: field is immutable",
        ),
        (job({QUEUE: "a"}, {OURS: "1:4"}, runs=True), job({QUEUE: "a"}, {OURS: "1:8"}, runs=True), ""),
        (job({QUEUE: "a"}), job({QUEUE: "a"}, {OURS: "1:4"}), ""),
        (job(runs=True), job({}, {OURS: "1:4"}, runs=True), ""),
        (
            job({}, {MINIMUM: "2"}, runs=True, **FOUR),
            job({}, {MINIMUM: "2"}, runs=True, **FOUR | {"parallelism": 3}),
            "spec.parallelism: Forbidden: cannot change when partial admission is enabled and the job is not suspended",
        ),
        (job({}, {MINIMUM: "2"}, **FOUR), job({}, {MINIMUM: "2"}, **FOUR | {"parallelism": 3}), ""),
        (
            job({}, {MINIMUM: "2"}, **FOUR | {"parallelism": 2}),
            job({}, {MINIMUM: "2"}, runs=True, **FOUR | {"parallelism": 2}),
            "",
        ),
        (
            job({}, {MINIMUM: "2"}, **FOUR),
            job({}, {MINIMUM: "9"}, **FOUR),
            f"metadata.annotations[{MINIMUM}]: Invalid value: 9",
        ),
        (
            job({}, {TOGETHER: "true"}, runs=True, **FOUR),
            job(runs=True, **FOUR),
            f"metadata.annotations[{TOGETHER}]: Forbidden: field is immutable while the job is not suspended",
        ),
        (job({}, {GATES: "a.io/b,a.io/c"}), job({}, {GATES: "a.io/b"}), ""),
        (job({}, {GATES: "a.io/b"}), job(), ""),
        (
            job(),
            job({}, {GATES: "a.io/b"}),
            f"metadata.annotations[{GATES}]: Forbidden: cannot add admission gate after creation",
        ),
        (
            job({}, {GATES: "a.io/b"}),
            job({}, {GATES: "a.io/c"}),
            f"metadata.annotations[{GATES}]: Forbidden: can only remove gates",
        ),
    ],
)
def test_changes(old, new, said):
    errors = [str(error) for error in validate_update(new, old, DEFAULT)]
    assert errors and errors[0].startswith(said) if said else errors == []


def test_the_annotation_with_the_name_of_a_workload_comes_before_the_label():
    assert prebuilt_name(ObjectMeta(labels={PREBUILT: "a"})) == "a"
    assert prebuilt_name(ObjectMeta(labels={PREBUILT: "a"}, annotations={PREBUILT: "b"})) == "b"
    assert prebuilt_name(ObjectMeta()) == ""
