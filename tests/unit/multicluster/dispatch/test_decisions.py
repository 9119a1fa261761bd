"""The records of what MultiKueue decided."""

from datetime import UTC, datetime

import pytest

from muster.api.kueue import Workload, WorkloadStatus
from muster.api.ours.decisions import Subject
from muster.multicluster.dispatch.decisions import describe_dispatch
from muster.multicluster.dispatch.views import DispatchPlan, DispatchView, Remote

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("home", "lost", "plan", "expected"),
    [
        ("", False, {"home": "", "create": ("b", "a")}, [("Nominated", ("a", "b"), "a,b")]),
        ("", False, {"home": "a"}, [("Dispatched", ("a",), "")]),
        ("a", False, {"home": ""}, [("Recalled", ("a",), "")]),
        ("a", True, {"home": "b"}, [("Recalled", ("a",), "ClusterLost"), ("Dispatched", ("b",), "")]),
        ("a", False, {"home": "a", "align": ("a",)}, []),
    ],
)
def test_a_plan_is_told_by_what_it_does(home, lost, plan, expected):
    remote = Remote("a", lost_since=NOW if lost else None)
    view = DispatchView(Workload(), "check", home, remotes=(remote,))
    records = describe_dispatch(view, DispatchPlan(status=WorkloadStatus(), **plan), Subject("ns/j", "u"), NOW)
    assert [(one.what, one.clusters, one.rule) for one in records] == expected
