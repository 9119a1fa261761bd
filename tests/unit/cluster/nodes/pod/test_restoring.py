"""Which pods of a machine that was down have to end as interrupted."""

from datetime import UTC, datetime

import pytest

from muster.api.core import Container, Pod, PodSpec
from muster.cluster.nodes.disk.storage import PodRecord
from muster.cluster.nodes.pod.facts import Attempt, ContainerFacts, Exit
from muster.cluster.nodes.pod.restoring import UNKNOWN_REASON, is_forgotten, was_interrupted

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = Pod(
    spec=PodSpec(
        restart_policy="Never",
        init_containers=(Container(name="side", restart_policy="Always"), Container(name="init")),
        containers=(Container(name="main"), Container(name="other")),
    )
)


def ended(code: int, reason: str = "") -> ContainerFacts:
    reason = reason or ("Error" if code else "Completed")
    return ContainerFacts(Attempt(0, "id", NOW, exit=Exit(code, reason, "", NOW, NOW, 0.0, 1.0, "id")))


RUNS = ContainerFacts(Attempt(0, "id", NOW))
LOST = ended(137, UNKNOWN_REASON)


@pytest.mark.parametrize(
    ("main", "other", "side", "interrupted"),
    [
        (RUNS, RUNS, RUNS, False),
        (LOST, LOST, LOST, True),
        (ended(0), LOST, LOST, True),
        (ended(0), ended(0), LOST, False),  # it had done its work
        (ended(1), ended(0), LOST, False),  # it had failed by itself
        (ended(0), ended(0), ended(0), False),
    ],
)
def test_a_pod_is_interrupted_if_nobody_knows_how_its_work_ended(
    main: ContainerFacts, other: ContainerFacts, side: ContainerFacts, *, interrupted: bool
) -> None:
    found = {"side": side, "init": ended(0), "main": main, "other": other}
    assert was_interrupted(POD, found, None) is interrupted


def test_a_pod_that_was_told_to_end_is_interrupted_however_it_ended() -> None:
    found = {"main": ended(0), "other": ended(0)}
    assert was_interrupted(POD, found, PodRecord("ns", "p", "uid", "", ended=True))
    assert not was_interrupted(POD, found, PodRecord("ns", "p", "uid", ""))


def test_a_server_that_remembers_less_than_the_disk_has_forgotten_the_pod() -> None:
    assert is_forgotten(None), "nothing is here of a pod that runs"
    assert is_forgotten(PodRecord("ns", "p", "uid", "", ended=True))
    assert not is_forgotten(PodRecord("ns", "p", "uid", "")), "the machine went down"
