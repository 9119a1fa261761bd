import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.jobs.world import START

from muster.api.batch import JobCondition, JobStatus, UncountedTerminatedPods
from muster.api.patch import merge
from muster.controllers.job.writer import make_status_patch

uids = st.lists(st.sampled_from("abc"), unique=True).map(tuple)
statuses = st.builds(
    JobStatus,
    active=st.integers(0, 2),
    succeeded=st.integers(0, 2),
    ready=st.none() | st.integers(0, 1),
    completed_indexes=st.sampled_from(["", "0", "0,1"]),
    failed_indexes=st.none() | st.sampled_from(["", "2"]),
    start_time=st.none() | st.just(START),
    conditions=st.sampled_from([(), (JobCondition(type="Suspended", status="True", last_probe_time=START),)]),
    uncounted_terminated_pods=st.none() | st.builds(UncountedTerminatedPods, succeeded=uids, failed=uids),
)


def test_only_what_changed_is_written() -> None:
    old = JobStatus(active=2, ready=1, succeeded=3, completed_indexes="0-2")
    new = JobStatus(active=0, ready=1, succeeded=4, completed_indexes="0-3")
    assert make_status_patch(old, new) == {"active": None, "succeeded": 4, "completedIndexes": "0-3"}


def test_uids_that_are_settled_are_removed() -> None:
    old = JobStatus(uncounted_terminated_pods=UncountedTerminatedPods(failed=("a",), succeeded=("b",)))
    new = JobStatus(uncounted_terminated_pods=UncountedTerminatedPods(succeeded=("c",)))
    assert make_status_patch(old, new) == {"uncountedTerminatedPods": {"failed": None, "succeeded": ("c",)}}


@given(statuses, statuses)
def test_the_patch_makes_the_one_the_other(old: JobStatus, new: JobStatus) -> None:
    stored = msgspec.to_builtins(old)
    patched = merge.apply(stored, make_status_patch(old, new))
    assert msgspec.convert(patched, JobStatus) == new
