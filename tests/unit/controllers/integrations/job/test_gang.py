"""Which pods of a Job are part of its gang."""

import msgspec
import pytest

from muster.api.batch import COMPLETION_INDEX, Job
from muster.api.core import Pod
from muster.api.kueue.names import ELASTIC_JOB
from muster.api.ours.elastic import HELD_ANNOTATION
from muster.controllers.integrations.job.gang import JobGangs
from muster.gang.demands import Size


def pods(*indexes):
    annotations = [{} if index is None else {COMPLETION_INDEX: str(index)} for index in indexes]
    return [msgspec.convert({"metadata": {"annotations": each}}, Pod) for each in annotations]


@pytest.mark.parametrize(
    ("spec", "indexes", "left"),
    [
        pytest.param({"completionMode": "Indexed", "completions": 3}, [0, 1, 2], 3, id="all"),
        pytest.param({"completionMode": "Indexed", "completions": 3}, [0, 3, 2, 7], 2, id="scaled down"),
        pytest.param({"completionMode": "Indexed", "completions": 0}, [0, 1], 0, id="scaled to nothing"),
        pytest.param({"completionMode": "NonIndexed", "completions": 1}, [None, None], 2, id="no indexes"),
        pytest.param({}, [None, None], 2, id="a work queue"),
    ],
)
def test_pods_above_the_range_are_not(spec, indexes, left):
    assert len(JobGangs().members(msgspec.convert({"spec": spec}, Job), pods(*indexes))) == left


def job(completions=4, parallelism=None, *, held=None, uid="u", succeeded=0, mode="Indexed"):
    annotations = {HELD_ANNOTATION: f"{held}/{uid}" if uid else f"{held}"} if held is not None else {}
    spec = {"completions": completions, "completionMode": mode}
    spec |= {"parallelism": completions if parallelism is None else parallelism}
    document = {"metadata": {"uid": "u", "annotations": annotations}, "spec": spec, "status": {"succeeded": succeeded}}
    return msgspec.convert(document, Job)


GATE = {"spec": {"schedulingGates": [{"name": ELASTIC_JOB}]}}


@pytest.mark.parametrize(
    ("made", "bound", "gated", "size"),
    [
        pytest.param(job(), [], [], Size(4), id="it starts"),
        pytest.param(job(held=2), [], [2, 3], Size(2), id="it starts anew, and waits for quota for its growth"),
        pytest.param(job(held=2, uid="another"), [], [2, 3], Size(4), id="copied from another Job's manifest"),
        pytest.param(job(8, 4, held=4, uid="another"), [], [], Size(4), id="copied, and it has waves"),
        pytest.param(job(), [], [1, 2, 3], Size(4), id="it has not started, and gets quota pod by pod"),
        pytest.param(job(held=4), [0, 1], [], Size(4, 2, 4), id="it lost two"),
        pytest.param(job(6, held=4), [0, 1, 2, 3], [], Size(6, 4, 4), id="it grows"),
        pytest.param(job(held=2, uid=""), [0, 1], [], Size(4, 2, 2), id="it grows, as 0.1.0 recorded it"),
        pytest.param(job(6, held=4), [0, 1, 5], [], Size(6, 3, 6), id="it grew, and nobody recorded that"),
        pytest.param(job(2), [0], [], Size(2, 1, 1), id="it was one alone, which is not recorded"),
        pytest.param(job(held=4, succeeded=1), [1, 2], [], Size(3, 2, 4, done=1), id="one is done"),
        pytest.param(
            job(held=4, succeeded=1, mode="NonIndexed"), [0, 0], [], Size(3, 2, 4), id="one without an index is done"
        ),
        pytest.param(job(9, 3), [], [], Size(3), id="its first wave"),
        pytest.param(job(9, 3, held=3), [], [], Size(3), id="its first wave again, as none is done"),
        pytest.param(job(9, 3, succeeded=8), [], [], Size(1, in_waves=True), id="its last wave"),
    ],
)
def test_how_large_it_is_and_should_be(made, bound, gated, size):
    waiting = [msgspec.convert({"metadata": {"annotations": {COMPLETION_INDEX: str(n)}}, **GATE}, Pod) for n in gated]
    assert JobGangs().size(made, pods(*bound), waiting) == size


def test_members_that_it_gave_up_are_growth_when_they_come_back():
    assert [JobGangs().most(one) for one in (job(4), job(4, 2), job(None, 3))] == [4, 2, 3]
