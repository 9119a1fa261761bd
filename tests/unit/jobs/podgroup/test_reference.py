"""Which PodGroup a pod is of: rows 3.2, 3.5 and 3.10 of KEP-34's checklist, and the dialects."""

from typing import Any

import msgspec
import pytest

from muster.api.core import Pod
from muster.jobs.podgroup.reference import By, reference_of

KEP, VOLCANO, LABEL = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "scheduling.x-k8s.io/pod-group",
)
FIELD, ALIKE = "schedulingGroup", "the pod names two PodGroups: "


def pod(said: dict[str, str]) -> Pod:
    document: dict[str, Any] = {"metadata": {"annotations": {k: v for k, v in said.items() if k in (KEP, VOLCANO)}}}
    document["metadata"]["labels"] = {LABEL: said[LABEL]} if LABEL in said else {}
    document["spec"] = {"schedulingGroup": {"podGroupName": said[FIELD]}} if FIELD in said else {}
    return msgspec.convert(document, Pod)


@pytest.mark.parametrize(
    ("said", "by", "name"),
    [
        pytest.param({KEP: "g"}, By.ANNOTATION, "g", id="3.2"),
        pytest.param({VOLCANO: "g"}, By.ANNOTATION, "g", id="volcano"),
        pytest.param({VOLCANO: "g", KEP: "g"}, By.ANNOTATION, "g", id="volcano says it twice"),
        pytest.param({LABEL: "g"}, By.LABEL, "g", id="coscheduling"),
        pytest.param({FIELD: "g"}, By.FIELD, "g", id="native"),
        pytest.param({FIELD: "g", LABEL: "g", KEP: "g"}, By.FIELD, "g", id="the field first"),
        pytest.param({LABEL: "g", VOLCANO: "g"}, By.LABEL, "g", id="then the label"),
        pytest.param({LABEL: "", KEP: "g"}, By.ANNOTATION, "g", id="an empty label says nothing"),
        pytest.param({KEP: "", LABEL: "g"}, By.LABEL, "g", id="an empty annotation beside a label"),
    ],
)
def test_the_first_counts(said: dict[str, str], by: By, name: str) -> None:
    reference = reference_of(pod(said))
    assert reference is not None
    assert (reference.by, reference.name, reference.problem) == (by, name, "")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        pytest.param(
            {KEP: ""}, f"annotation {KEP} is empty: name a PodGroup in it and submit the pod again", id="3.10"
        ),
        pytest.param(
            {VOLCANO: "a", KEP: "b"}, f'{ALIKE}"a" in annotation {VOLCANO}, "b" in annotation {KEP}', id="annotations"
        ),
        pytest.param(
            {LABEL: "a", KEP: "b"}, f'{ALIKE}"a" in label {LABEL}, "b" in annotation {KEP}', id="label and annotation"
        ),
        pytest.param(
            {FIELD: "a", LABEL: "a", KEP: "b"},
            f'{ALIKE}"a" in spec.schedulingGroup, "b" in annotation {KEP}',
            id="the third of three",
        ),
    ],
)
def test_what_cannot_be_said(said: dict[str, str], problem: str) -> None:
    reference = reference_of(pod(said))
    assert reference is not None
    assert reference.problem == problem


@pytest.mark.parametrize("said", [{}, {LABEL: ""}], ids=["3.5", "an empty label"])
def test_most_pods_are_of_none(said: dict[str, str]) -> None:
    assert reference_of(pod(said)) is None


def test_a_way_that_is_off_says_nothing() -> None:
    ways = (By.LABEL, By.ANNOTATION)
    assert reference_of(pod({FIELD: "g"}), ways) is None
    found = reference_of(pod({FIELD: "a", KEP: "b"}), ways)
    assert found is not None
    assert (found.name, found.problem) == ("b", "")
