"""What is said before a job changes its size."""

from typing import Any

import msgspec
import pytest

from muster.actions.jobs.scaling import part_of
from muster.api.batch import Job
from muster.dashboard.jobs.growth import describe_scale, find_page_objection, list_growths, make_growth
from muster.insight.record import record_of

QUEUED = {"kueue.x-k8s.io/queue-name": "q", "team": "vision"}
ELASTIC = {"muster.dev/elastic": "1:5"}
NEW_SIZE, ANEW = "It starts with the new number of workers.", "all its workers end, and it starts again"
STAY = "with fewer, those of the highest ranks end"


def job(annotations: Any = None, labels: Any = None, *, suspend: bool = False) -> Any:
    meta = {"name": "j", "namespace": "ns", "uid": "u", "annotations": annotations or {}, "labels": labels or {}}
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "suspend": suspend}
    return record_of(msgspec.convert({"metadata": meta, "spec": spec}, Job, strict=False))


@pytest.mark.parametrize(
    ("subject", "sentence"),
    [
        (job(), STAY),
        (job(ELASTIC, QUEUED), STAY),
        (job({"kueue.x-k8s.io/elastic-job": "true"}, QUEUED), STAY),
        (job(labels=QUEUED), ANEW),
        (job(labels=QUEUED, suspend=True), NEW_SIZE),
    ],
)
def test_what_becomes_of_the_workers_depends_on_the_queue(subject, sentence):
    said = describe_scale(subject, part_of(subject))
    assert said[0] == "It has 2 workers now."
    assert sentence in said[-1]


@pytest.mark.parametrize(("workers", "is_refused"), [(1, False), (5, False), (6, True), (100, True)])
def test_a_size_above_the_bounds_is_refused_with_the_bounds(workers, is_refused):
    sentence = find_page_objection(part_of(job(ELASTIC)), workers)
    assert bool(sentence) == is_refused
    assert not is_refused or "it has 1 to 5 workers" in sentence


def test_any_size_passes_without_bounds():
    assert find_page_objection(part_of(job()), 100_000) == ""


@pytest.mark.parametrize(
    ("annotations", "growths"),
    [(None, [1]), (ELASTIC, [1, 3]), ({"muster.dev/elastic": "1:3"}, [1]), ({"muster.dev/elastic": "2:2"}, [])],
)
def test_growth_is_foreseen_by_one_and_up_to_the_bound(annotations, growths):
    assert list_growths(part_of(job(annotations))) == growths


@pytest.mark.parametrize(("labels", "suspend"), [({}, False), (QUEUED, True)])
def test_additional_workers_are_a_job_in_the_same_queue(labels, suspend):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    made = make_growth({"metadata": {"name": "j", "namespace": "ns", "labels": labels}}, template, 3)
    assert made["metadata"]["labels"] == {name: value for name, value in labels.items() if name != "team"}
    assert (made["spec"]["parallelism"], made["spec"]["suspend"]) == (3, suspend)
    assert made["spec"]["template"]["spec"]["containers"] == [{"name": "c"}]
