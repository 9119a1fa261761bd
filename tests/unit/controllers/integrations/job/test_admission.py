"""What a Job gets on its way in, and what is refused; the sentences are upstream's (job_webhook)."""

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.managed_world import DEFAULT, World

from muster.api.batch import Job
from muster.api.managed.surroundings import Settings
from muster.api.meta import OwnerReference
from muster.controllers.integrations.admission import find_errors, list_default_patches
from muster.controllers.integrations.job.admission import counts_follow
from muster.controllers.integrations.job.integration import JobIntegration

KIND = JobIntegration()
K = "kueue.x-k8s.io"
QUEUE, CLASS = f"{K}/queue-name", f"{K}/priority-class"
LONGEST, PREBUILT = f"{K}/max-exec-time-seconds", f"{K}/prebuilt-workload-name"
MINIMUM, TOGETHER = f"{K}/job-min-parallelism", f"{K}/job-completions-equal-parallelism"
ELASTIC, GATES = f"{K}/elastic-job", f"{K}/admission-gated-by"
OURS, GANG = "muster.dev/elastic", "muster.dev/gang"


def job(labels=None, annotations=None, *, runs=False, **spec):
    meta = {"name": "j", "namespace": "ns", "labels": labels or {}, "annotations": annotations or {}}
    return msgspec.convert({"metadata": meta, "spec": {"suspend": not runs, **spec}}, Job)


FOUR = {"parallelism": 4, "completions": 4, "completionMode": "Indexed"}


SUSPENDED = {"spec": {"suspend": True}}
FAR = World({"lq": "far"}, elsewhere=("far",))
AWAY = {"spec": {"managedBy": f"{K}/multikueue"}}
FOLLOWS = {"metadata": {"annotations": {ELASTIC: "true"}}}


@pytest.mark.parametrize(
    ("made", "around", "gets"),
    [
        pytest.param(job(runs=True), World(), [], id="nothing without queues"),
        pytest.param(
            job(runs=True),
            DEFAULT,
            [{"metadata": {"labels": {QUEUE: "default"}}}, SUSPENDED],
            id="the default queue",
        ),
        pytest.param(job({QUEUE: "lq"}, **FOUR), DEFAULT, [SUSPENDED, FOLLOWS], id="its size may change"),
        pytest.param(job({QUEUE: "lq"}, **FOUR), FAR, [SUSPENDED, AWAY], id="another cluster"),
        pytest.param(
            job({QUEUE: "lq"}, managedBy="kubernetes.io/job-controller"),
            FAR,
            [SUSPENDED, AWAY],
            id="another cluster, by name of the usual controller",
        ),
        pytest.param(job({QUEUE: "lq"}, managedBy="else.io/x"), FAR, [], id="a controller of its own"),
    ],
)
def test_what_a_new_job_gets(made, around, gets):
    assert list_default_patches(KIND, made, "ns", around, Settings()) == gets


@pytest.mark.parametrize(
    ("made", "follows"),
    [
        pytest.param(job({QUEUE: "lq"}, **FOUR), True, id="a pod for each index"),
        pytest.param(job(managedBy="kubernetes.io/job-controller", **FOUR), True, id="the usual controller by name"),
        pytest.param(job(annotations={GANG: "true"}, **FOUR), True, id="a gang"),
        pytest.param(job(**FOUR | {"parallelism": 2}), False, id="fewer pods than indexes"),
        pytest.param(job(parallelism=4, completions=4), False, id="pods without an index"),
        pytest.param(job(annotations={OURS: "1:4"}, **FOUR), False, id="elastic in our way"),
        pytest.param(job(annotations={ELASTIC: "false"}, **FOUR), False, id="not to be elastic"),
        pytest.param(job(annotations={MINIMUM: "2"}, **FOUR), False, id="admitted in part"),
        pytest.param(job(annotations={GANG: "false"}, **FOUR), False, id="not a gang"),
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
        (job({LONGEST: "2147483647"}), ""),
        (
            job({LONGEST: "2147483648"}),
            f'metadata.labels[{LONGEST}]: Invalid value: "2147483648": strconv.Atoi: parsing "2147483648": val',
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
        (job({}, {GANG: "false"}), ""),
        (job({}, {GANG: "no"}), 'metadata.annotations[muster.dev/gang]: Invalid value: "no": must be "tr'),
    ],
)
def test_new_jobs(made, said):
    found = [str(error) for error in find_errors(KIND, made, None, DEFAULT)]
    assert found[0].startswith(said) if said else found == []


def test_what_a_jobset_says_of_its_jobs_is_looked_at_in_the_jobset():
    made = job({}, {GANG: "no"})
    owner = OwnerReference(api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet", name="s", uid="u", controller=True)
    owned = replace(made, metadata=replace(made.metadata, owner_references=(owner,)))
    assert find_errors(KIND, owned, None, DEFAULT) == []


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
        (job({}, {GANG: "no"}), job({}, {GANG: "no"}, runs=True), ""),
        (job({}, {GANG: "no"}), job({}, {GANG: "none"}), f"metadata.annotations[{GANG}]: Invalid value"),
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
    found = [str(error) for error in find_errors(KIND, new, old, DEFAULT)]
    assert found and found[0].startswith(said) if said else found == []
