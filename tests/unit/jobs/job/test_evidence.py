"""What befell pods that will not be there to tell."""

from typing import Any

import msgspec
import pytest

from muster.api.core import Pod
from muster.jobs.job.evidence import last_words


def ended(code: int, at: int = 0) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "finishedAt": f"2026-01-01T00:00:{at:02}Z"}}


def pod(name: str, phase: str = "Running", *, deleting: bool = False, why: str = "", **status: Any) -> Pod:
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    conditions = [{"type": "DisruptionTarget", "status": "True", "message": why}] if why else []
    found = {"phase": phase, "conditions": conditions, "containerStatuses": [{"name": "c"} | status] if status else []}
    return msgspec.convert({"metadata": {"name": name, "namespace": "ns"} | going, "status": found}, Pod)


RESTARTED = pod("j-1-x", restartCount=1, state={"running": {}}, lastState=ended(3, at=2))
CRASHED = pod("j-0-x", restartCount=2, state=ended(4, at=1), lastState=ended(5, at=0))
WENT_WELL = pod("j-2-x", restartCount=1, state={"running": {}}, lastState=ended(0))
FIRST_RUN = pod("j-3-x", restartCount=0, state=ended(9))
STAYS = pod("j-4-x", "Failed", state=ended(7))
DELETED = pod("j-5-x", "Pending", deleting=True)
PREEMPTED = pod("j-6-x", deleting=True, why="preempted by ns/urgent")


@pytest.mark.parametrize(
    ("pods", "failed", "text"),
    [
        ([RESTARTED], [], "Container c for pod ns/j-1-x failed with exit code 3"),
        ([RESTARTED, CRASHED], [], "Container c for pod ns/j-0-x failed with exit code 5"),
        ([WENT_WELL, FIRST_RUN], [], ""),
        ([STAYS, DELETED], [STAYS, DELETED], ""),
        ([WENT_WELL, DELETED], [DELETED], "Pod ns/j-5-x was deleted"),
        ([PREEMPTED], [PREEMPTED], "Pod ns/j-6-x was deleted: preempted by ns/urgent"),
        ([DELETED], [], ""),
    ],
)
def test_what_is_told_of_pods_that_will_be_gone(pods: list[Pod], failed: list[Pod], text: str) -> None:
    assert last_words(pods, failed) == text
