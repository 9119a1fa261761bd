"""What was used over time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from muster.api.kueue import Workload
from muster.insight.history.runs import PodRequests, Run
from muster.insight.history.use import UseSpan, spans_of_holders, spans_of_runs, sum_use

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
ADA = "system:serviceaccount:muster-users:ada"


def at(hours: float) -> datetime:
    """Return a moment so many hours ago."""
    return NOW - timedelta(hours=hours)


def layers(*spans: UseSpan, steps: int = 4, most: int = 6) -> dict[str, tuple[float, ...]]:
    return {one.owner: one.values for one in sum_use(spans, NOW, 4 * HOUR, steps, most).layers}


CASES = {
    "a whole step": ([UseSpan("ada", at(3), at(2), 8)], {"ada": (0, 8, 0, 0)}),
    "half of two steps": ([UseSpan("ada", at(2.5), at(1.5), 8)], {"ada": (0, 4, 4, 0)}),
    "it still runs": ([UseSpan("ada", at(1.5), None, 2)], {"ada": (0, 0, 1, 2)}),
    "it began long before": ([UseSpan("ada", at(100), at(3), 2)], {"ada": (2, 0, 0, 0)}),
    "it ended long before": ([UseSpan("ada", at(100), at(5), 2)], {}),
    "its clock is wrong by a day": ([UseSpan("ada", at(-24), None, 2), UseSpan("eve", at(1), at(2), 2)], {}),
    "two of one user at a time": (
        [UseSpan("ada", at(1), None, 1), UseSpan("ada", at(1), None, 2)],
        {"ada": (0, 0, 0, 3)},
    ),
    "an owner that is unknown": ([UseSpan("", at(1), None, 1)], {"unknown": (0, 0, 0, 1)}),
}


@pytest.mark.parametrize("name", CASES)
def test_use_is_the_mean_of_each_step(name: str) -> None:
    spans, wanted = CASES[name]
    assert layers(*spans) == wanted


def test_the_largest_have_layers_and_the_others_share_one() -> None:
    spans = [UseSpan(f"u{number}", at(1), None, number) for number in range(1, 6)]
    assert layers(*spans, most=2) == {"u5": (0, 0, 0, 5), "u4": (0, 0, 0, 4), "others": (0, 0, 0, 6)}


def run(**fields: Any) -> Run:
    base: dict[str, Any] = {"uid": "u", "namespace": "n", "name": "j", "kind": "Job", "state": "Completed"}
    return Run(**base | {"submitted": at(4), "started": at(3), "ended": at(2), "owner": "ada"} | fields)


def test_a_run_used_what_its_pods_requested() -> None:
    pods = (PodRequests(2, {"cpu": "500m", "nvidia.com/gpu": "4"}), PodRequests(1, {"cpu": "1"}))
    assert spans_of_runs([run(pod_requests=pods)], "cpu") == [UseSpan("ada", at(3), at(2), 2)]
    assert spans_of_runs([run(pod_requests=pods)], "nvidia.com/gpu") == [UseSpan("ada", at(3), at(2), 8)]
    assert spans_of_runs([run(requested_cpus=3.0)], "cpu") == [UseSpan("ada", at(3), at(2), 3)]
    assert spans_of_runs([run(pod_requests=pods, started=None), run()], "cpu") == []
    assert spans_of_runs([run(pod_requests=(PodRequests(1, {"cpu": "nonsense"}),))], "cpu") == []


def workload(*conditions: tuple[str, str], admitted: bool = True) -> Workload:
    assigned = {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "resourceUsage": {"cpu": "1500m"}}]}
    listed = [{"type": type, "status": "True", "reason": "R", "lastTransitionTime": when} for type, when in conditions]
    status: dict[str, Any] = {"conditions": listed} | ({"admission": assigned} if admitted else {})
    meta = {"name": "w", "annotations": {"muster.dev/submitted-by": ADA}}
    return msgspec.convert({"metadata": meta, "status": status}, Workload)


def test_a_workload_uses_what_it_holds() -> None:
    began = "2026-01-01T23:00:00Z"
    runs = workload(("QuotaReserved", began), ("Admitted", began))
    ended = workload(("QuotaReserved", began), ("Admitted", began), ("Finished", began))
    assert spans_of_holders([runs, ended, workload(admitted=False)], "cpu") == [UseSpan(ADA, at(1), None, 1.5)]
    assert spans_of_holders([runs], "memory") == []


def test_what_ran_and_what_runs_of_one_user_is_one_layer() -> None:
    runs = workload(("QuotaReserved", "2026-01-01T23:00:00Z"), ("Admitted", "2026-01-01T23:00:00Z"))
    ran = run(owner=ADA, pod_requests=(PodRequests(1, {"cpu": "2"}),))
    spans = [*spans_of_runs([ran], "cpu"), *spans_of_holders([runs], "cpu")]
    assert layers(*spans) == {ADA: (0, 2, 0, 1.5)}
