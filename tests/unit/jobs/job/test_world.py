"""What the Job and its pods are told of their world, case by case; and that no pod ever hears the past."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.jobs.world import START, job_of, replace

from muster.api.batch import COMPLETION_INDEX, Job
from muster.api.core import Pod, PodSchedulingGate, PodStatus
from muster.api.meta import ObjectMeta
from muster.api.ours.elastic import ELASTIC_ANNOTATION, WORLD_ANNOTATION, World
from muster.jobs.job.census import completion_index
from muster.jobs.job.plan import Creation
from muster.jobs.job.pods import PodTemplate
from muster.jobs.job.quota import GATE
from muster.jobs.job.world import (
    FIRST_SIZE_ANNOTATION,
    find_current_world,
    has_world,
    make_announcement,
    make_world_annotations,
    pod_annotations,
    world_of,
)

T = TypeVar("T", Job, Pod)

ELASTIC = {ELASTIC_ANNOTATION: "1:8"}


def said(text: str | None) -> dict[str, str]:
    return {} if text is None else {WORLD_ANNOTATION: text}


def text_of(size: int, epoch: int) -> str:
    return f'{{"size":{size},"epoch":{epoch}}}'


def elastic(size: int, text: str | None = None, status: dict[str, Any] | None = None, **meta: Any) -> Job:
    spec = {"completionMode": "Indexed", "completions": size, "parallelism": size}
    return job_of(spec, status, **{"annotations": ELASTIC | said(text)} | meta)


def pod_of(text: str | None, name: str = "p", phase: str = "Running", index: int = 0, **meta: Any) -> Pod:
    metadata = ObjectMeta(name=name, annotations={COMPLETION_INDEX: str(index)} | said(text), **meta)
    return Pod(metadata=metadata, status=PodStatus(phase=phase))


@pytest.mark.parametrize(
    ("size", "job", "pods", "expected"),
    [
        pytest.param(4, None, [], (4, 1), id="the first"),
        pytest.param(4, (4, 1), [], (4, 1), id="nothing new"),
        pytest.param(2, (4, 1), [(4, 1)], (2, 2), id="shrunk"),
        pytest.param(6, (2, 2), [(2, 2)], (6, 3), id="grown"),
        pytest.param(4, (2, 2), [(2, 2)], (4, 3), id="the old size is a new world"),
        pytest.param(0, (2, 2), [(2, 2)], (0, 3), id="to zero"),
        pytest.param(4, None, [(4, 1)], (4, 1), id="pods were born before the Job was told"),
        pytest.param(2, None, [(4, 1)], (2, 2), id="and it has shrunk meanwhile"),
        pytest.param(6, (2, 2), [(2, 2), (6, 3)], (6, 3), id="newcomers are ahead of the Job"),
        pytest.param(6, (4, 1), [(4, 1), (5, 2)], (6, 3), id="newcomers of a size that passed"),
        pytest.param(6, (6, 2), [(5, 2)], (6, 3), id="two sizes of one epoch"),
        pytest.param(6, None, [(4, 7)], (6, 8), id="the annotation was lost"),
        pytest.param(4, (4, 3), [(4, 7)], (4, 7), id="the annotation was put back by hand"),
        pytest.param(4, (4, 3), [None, (4, 1)], (4, 3), id="pods that are behind"),
    ],
)
def test_the_world(
    size: int, job: tuple[int, int] | None, pods: list[tuple[int, int] | None], expected: tuple[int, int]
) -> None:
    found = find_current_world(elastic(size, job and text_of(*job)), [pod_of(pod and text_of(*pod)) for pod in pods])
    assert found == World(*expected)


def test_the_job_is_told_first_and_then_its_active_pods_that_differ() -> None:
    pods = [
        pod_of(text_of(4, 1), "survivor"),
        pod_of(text_of(2, 2), "knows"),
        pod_of(None, "pending", "Pending"),
        pod_of(text_of(4, 1), "surplus", index=2),
        pod_of(text_of(4, 1), "ended", "Succeeded"),
        pod_of(text_of(4, 1), "going", deletion_timestamp=START),
    ]
    first = make_announcement(elastic(2, text_of(4, 1)), pods[:1])
    assert first is not None
    assert (first.world, first.on_job, first.on_pods) == (World(2, 2), True, ())
    second = make_announcement(elastic(2, text_of(2, 2)), pods)
    assert second is not None
    assert not second.on_job
    assert [pod.metadata.name for pod in second.on_pods] == ["survivor", "pending"]
    assert make_announcement(elastic(2, text_of(2, 2)), pods[1:2]) is None


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(elastic(4, annotations={}), id="not elastic"),
        pytest.param(job_of({"completions": 4, "parallelism": 4}, annotations=ELASTIC), id="not Indexed"),
        pytest.param(elastic(4, status={"conditions": [{"type": "Complete", "status": "True"}]}), id="complete"),
        pytest.param(elastic(4, status={"conditions": [{"type": "Failed", "status": "True"}]}), id="failed"),
        pytest.param(elastic(4, deletion_timestamp=START), id="going"),
    ],
)
def test_jobs_that_have_no_world(job: Job) -> None:
    assert make_announcement(job, [pod_of(None)]) is None


@pytest.mark.parametrize(
    "text",
    ["", "x", "{", "[]", "4", "null", '{"size":4}', '{"size":-1,"epoch":1}', '{"size":1,"epoch":0}',
     '{"size":true,"epoch":1}', '{"size":1.5,"epoch":1}', text_of(2**53, 1), text_of(1, 2**53 - 1),
     text_of(1, 10**30), '{"x":' + "[" * 100_000],
)  # fmt: skip
def test_what_nobody_of_ours_has_written_counts_as_nothing(text: str) -> None:
    assert world_of(ObjectMeta(annotations=said(text))) is None
    assert find_current_world(elastic(3, text)) == World(3, 1)


def test_what_is_written_is_what_is_read() -> None:
    world = World(4, 2)
    assert make_world_annotations(world) == said('{"size":4,"epoch":2}')
    assert world_of(ObjectMeta(annotations=said('{ "epoch": 2, "size": 4, "more": 1 }'))) == world


def test_who_has_no_node_yet_will_start_with_the_size_that_it_is_told() -> None:
    pod, world = pod_of(text_of(4, 1)), World(2, 2)
    assert pod_annotations(pod, world) == make_world_annotations(world) | {FIRST_SIZE_ANNOTATION: "2"}
    assert pod_annotations(replace(pod, spec=replace(pod.spec, node_name="n")), world) == make_world_annotations(world)


class Cluster:
    """A Job, its pods, and two controllers that see all of it late: at the versions that the test chooses."""

    def __init__(self, size: int) -> None:
        self.jobs = [elastic(size)]  # all that it has been, the newest last
        self.pods: list[list[Pod]] = []  # the same of each pod

    @property
    def world(self) -> World | None:
        return world_of(self.jobs[-1].metadata)

    @property
    def size(self) -> int:
        return self.jobs[-1].spec.completions or 0

    def scale(self, size: int) -> None:
        job = self.jobs[-1]
        self.jobs.append(replace(job, spec=replace(job.spec, completions=size, parallelism=size)))

    def born(self, age: int) -> None:
        """The Job controller makes a pod, from a Job that it saw so many versions ago."""
        job = self.jobs[max(0, len(self.jobs) - 1 - age)]
        pod = PodTemplate(job).pod(Creation(len(self.pods)))
        self.pods.append([replace(pod, status=PodStatus(phase="Running"))])

    def told(self, job_age: int, pod_ages: Sequence[int], writes: int) -> None:
        """Our controller acts on what it sees, and is killed after so many writes. Its preconditions are checked."""
        seen_at = max(0, len(self.jobs) - 1 - job_age)
        looks = [
            max(0, len(versions) - 1 - (pod_ages[n] if n < len(pod_ages) else 0))
            for n, versions in enumerate(self.pods)
        ]
        seen = [
            replace(versions[at], metadata=replace(versions[at].metadata, name=str(n)))
            for n, (versions, at) in enumerate(zip(self.pods, looks, strict=True))
        ]
        news = make_announcement(self.jobs[seen_at], seen)
        if news is None:
            return
        if news.on_job:
            if seen_at == len(self.jobs) - 1:
                self.jobs.append(marked(self.jobs[-1], news.world))
            return
        for pod in news.on_pods[:writes]:
            versions, at = self.pods[int(pod.metadata.name)], looks[int(pod.metadata.name)]
            if at == len(versions) - 1:
                versions.append(marked(versions[-1], news.world))


def marked(obj: T, world: World) -> T:
    meta = replace(obj.metadata, annotations=obj.metadata.annotations | make_world_annotations(world))
    return msgspec.structs.replace(obj, metadata=meta)


AGES = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("scale"), st.integers(0, 6)),
    st.tuples(st.just("born"), AGES),
    st.tuples(st.just("told"), AGES, st.lists(AGES, max_size=5), st.integers(0, 3)),
)


@given(st.integers(0, 4), st.lists(STEPS, max_size=30))
def test_no_pod_hears_the_past_and_in_the_end_all_agree(size: int, steps: list[tuple[Any, ...]]) -> None:
    cluster = Cluster(size)
    for name, *arguments in steps:
        getattr(cluster, name)(*arguments)
    for _ in range(3):  # everything has been seen: the Job, its pods, and once more
        cluster.told(0, [], len(cluster.pods))
    for versions in cluster.pods:
        heard = [world for pod in versions if (world := world_of(pod.metadata)) is not None]
        assert all(before.epoch < after.epoch for before, after in pairwise(heard))
        if completion_index(versions[-1]) < cluster.size:
            assert heard[-1] == cluster.world
    assert cluster.world is not None
    assert cluster.world.size == cluster.size


def test_what_a_pod_was_born_with_that_waits_for_quota_is_known_to_nobody() -> None:
    job, pod = elastic(2, text_of(2, 1)), pod_of(text_of(3, 2), index=2)
    waiting = msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=(PodSchedulingGate(name=GATE),))
    )
    assert find_current_world(job, [waiting]) == World(2, 1)
    assert find_current_world(job, [pod]) == World(2, 3)


@pytest.mark.parametrize(
    ("size", "queued", "news"),
    [
        pytest.param(4, True, True, id="its size is granted: pods that are behind are told"),
        pytest.param(6, True, False, id="it is to grow and has no pod more: its workers go on"),
        pytest.param(2, True, True, id="it shrinks"),
        pytest.param(6, False, True, id="no quota is asked"),
    ],
)
def test_a_job_that_queues_says_a_larger_world_once_it_is_granted(size: int, queued: bool, news: bool) -> None:
    labels = {"kueue.x-k8s.io/queue-name": "q"} if queued else {}
    found = make_announcement(elastic(size, text_of(4, 2), labels=labels), [pod_of(text_of(2, 1))])
    assert (found is not None) is news


@pytest.mark.parametrize(
    ("marks", "world", "expected"),
    [
        pytest.param(ELASTIC, None, True, id="marked by its user"),
        pytest.param({"kueue.x-k8s.io/elastic-job": "true"}, None, False, id="elastic, and of no world yet"),
        pytest.param({"kueue.x-k8s.io/elastic-job": "true"}, text_of(2, 1), True, id="the copy of a marked one"),
        pytest.param({}, text_of(2, 1), False, id="not elastic any more"),
    ],
)
def test_which_jobs_have_a_world(marks: dict[str, str], world: str | None, expected: bool) -> None:
    spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    assert has_world(job_of(spec, annotations=marks | said(world))) is expected
    assert not has_world(job_of({**spec, "completionMode": "NonIndexed"}, annotations=marks | said(world)))
