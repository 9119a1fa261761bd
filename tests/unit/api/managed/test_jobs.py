"""What a job gets on its way in, and what is refused; the sentences are upstream's (jobframework)."""

import pytest
from tests.unit.managed_world import DEFAULT, World

from muster.api.managed.jobs import NewJobChanges, list_arrival_changes, prebuilt_name
from muster.api.managed.surroundings import Settings
from muster.api.meta import ObjectMeta, OwnerReference
from muster.api.values.selectors import parse_label_selector

K = "kueue.x-k8s.io"
QUEUE, CLASS = f"{K}/queue-name", f"{K}/priority-class"
PREBUILT = f"{K}/prebuilt-workload-name"
PARENT = OwnerReference(api_version="batch/v1", kind="Job", name="parent", uid="p", controller=True)
SELECTS = Settings(selects=parse_label_selector("managed=yes"))
ALL = Settings(without_queue=True, selects=parse_label_selector("managed=yes"))


@pytest.mark.parametrize(
    ("labels", "owned", "dispatchable", "world", "settings", "gets"),
    [
        ({}, False, True, World(), Settings(), NewJobChanges()),
        ({}, False, True, World({"other": "cq"}), Settings(), NewJobChanges()),
        ({}, False, True, DEFAULT, Settings(), NewJobChanges(queue="default", suspend=True)),
        ({QUEUE: "lq"}, False, True, DEFAULT, Settings(), NewJobChanges(suspend=True)),
        ({QUEUE: "lq"}, False, True, World(), Settings(), NewJobChanges(suspend=True)),
        (
            {},
            False,
            True,
            World({"default": "cq"}, {"managed": "yes"}),
            SELECTS,
            NewJobChanges(queue="default", suspend=True),
        ),
        ({}, False, True, DEFAULT, SELECTS, NewJobChanges()),
        ({QUEUE: "lq"}, False, True, DEFAULT, SELECTS, NewJobChanges()),
        ({}, False, True, World(labels={"managed": "yes"}), ALL, NewJobChanges(suspend=True)),
        ({}, False, True, World(), ALL, NewJobChanges()),
        (
            {},
            True,
            True,
            World({"default": "cq"}, parent=ObjectMeta(uid="p", labels={QUEUE: "lq"})),
            Settings(),
            NewJobChanges(),
        ),
        (
            {},
            True,
            True,
            World({"default": "cq"}, parent=ObjectMeta(uid="p")),
            Settings(),
            NewJobChanges(),
        ),
        (
            {QUEUE: "lq"},
            False,
            True,
            World(classes=("default",)),
            Settings(),
            NewJobChanges(priority_class="default", suspend=True),
        ),
        (
            {QUEUE: "lq", CLASS: "mine"},
            False,
            True,
            World(classes=("default",)),
            Settings(),
            NewJobChanges(suspend=True),
        ),
        (
            {QUEUE: "lq"},
            False,
            True,
            World(classes=("default",)),
            Settings(default_priority=False),
            NewJobChanges(suspend=True),
        ),
        (
            {QUEUE: "lq"},
            False,
            True,
            World({"lq": "far"}, elsewhere=("far",)),
            Settings(),
            NewJobChanges(suspend=True, elsewhere=True),
        ),
        (
            {QUEUE: "lq"},
            False,
            False,
            World({"lq": "far"}, elsewhere=("far",)),
            Settings(),
            NewJobChanges(suspend=True),
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
        "a controller of its own",
    ],
)
def test_what_a_job_gets(labels, owned, dispatchable, world, settings, gets):
    meta = ObjectMeta(name="j", namespace="ns", labels=labels, owner_references=(PARENT,) if owned else ())
    assert list_arrival_changes(meta, world, settings, dispatchable=dispatchable) == gets


def owned_by(kind, api_version):
    return OwnerReference(api_version=api_version, kind=kind, name="x", uid="x", controller=True)


@pytest.mark.parametrize(
    ("owner", "labels", "settings", "gets"),
    [
        (owned_by("JobSet", "jobset.x-k8s.io/v1alpha2"), {}, Settings(), NewJobChanges()),
        (owned_by("JobSet", "jobset.x-k8s.io/v1alpha2"), {QUEUE: "lq"}, Settings(), NewJobChanges(suspend=True)),
        (
            owned_by("JobSet", "jobset.x-k8s.io/v1alpha2"),
            {},
            Settings(without_queue=True),
            NewJobChanges("default", suspend=True),
        ),
        (owned_by("CronJob", "batch/v1"), {}, Settings(), NewJobChanges("default", suspend=True)),
        (
            OwnerReference(api_version="example.com/v1", kind="Run", name="x", uid="x"),
            {},
            Settings(),
            NewJobChanges("default", suspend=True),
        ),
    ],
    ids=["not drawn", "its own word", "all jobs are managed", "a CronJob leaves its Jobs alone", "only owned, not run"],
)
def test_a_job_that_another_controller_runs_is_not_drawn_into_the_default_queue(owner, labels, settings, gets):
    meta = ObjectMeta(namespace="ns", labels=labels, owner_references=(owner,))
    assert list_arrival_changes(meta, DEFAULT, settings, dispatchable=True) == gets


@pytest.mark.parametrize(
    ("parent", "gets"),
    [
        pytest.param(ObjectMeta(uid="x"), NewJobChanges(), id="JobSets queue"),
        pytest.param(None, NewJobChanges(suspend=True), id="JobSets do not queue here"),
    ],
)
def test_the_queue_of_a_job_that_a_jobset_makes_means_nothing_where_jobsets_queue(parent, gets):
    meta = ObjectMeta(
        namespace="ns",
        labels={QUEUE: "lq"},
        owner_references=(owned_by("JobSet", "jobset.x-k8s.io/v1alpha2"),),
    )
    assert list_arrival_changes(meta, World({"lq": "cq"}, parent=parent), Settings(), dispatchable=True) == gets


def test_the_annotation_with_the_name_of_a_workload_comes_before_the_label():
    assert prebuilt_name(ObjectMeta(labels={PREBUILT: "a"})) == "a"
    assert prebuilt_name(ObjectMeta(labels={PREBUILT: "a"}, annotations={PREBUILT: "b"})) == "b"
    assert prebuilt_name(ObjectMeta()) == ""
