"""Random histories of one Job: scaled, suspended, its pods failing, succeeding and deleted, the controller killed
between any two of its writes and its memory lost. Whatever happens, nothing is counted twice or lost, no index runs
twice, and the end is the end.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.jobs.world import World, job_of

from muster.api.batch import JobStatus, UncountedTerminatedPods
from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.values.indexes import Indexes
from muster.jobs.job.census import Member, completion_index
from muster.jobs.job.conditions import finish
from muster.jobs.job.pod_failure_policy import judge
from muster.jobs.job.terms import JobTerms

IGNORED = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}]}


class Audited(World):
    """A world that keeps books of its own: which pods were ever counted."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.counted_failed: set[str] = set()
        self.counted_succeeded: set[str] = set()

    def _store_status(self, status: JobStatus) -> None:
        old = self.job.status.uncounted_terminated_pods or UncountedTerminatedPods()
        new = status.uncounted_terminated_pods or UncountedTerminatedPods()
        for ever, before, after in (
            (self.counted_failed, old.failed, new.failed),
            (self.counted_succeeded, old.succeeded, new.succeeded),
        ):
            fresh = set(after) - set(before)
            assert not fresh & (self.counted_failed | self.counted_succeeded), "counted twice"
            ever |= fresh
        super()._store_status(status)
        assert status.failed + len(new.failed) == len(self.counted_failed)
        if not JobTerms.of(self.job).indexed:
            assert status.succeeded + len(new.succeeded) == len(self.counted_succeeded)

    def untrack(self, pod: Pod) -> None:
        """Also of a pod that is removed: not if it has succeeded meanwhile."""
        member = Member.of(self.pods.get(pod.metadata.uid, pod))
        if member.tracked and member.succeeded:
            self.check_release(member.pod)
        super().untrack(pod)

    def check_release(self, pod: Pod) -> None:
        """No pod that ended is let go before the status holds it."""
        terms, member = JobTerms.of(self.job), Member.of(pod)
        if member.uid in self.counted_failed | self.counted_succeeded or not terms.has_index(member.index):
            return
        if member.succeeded:
            completed = Indexes.parse(self.job.status.completed_indexes, terms.completions or 0)
            assert member.index in completed, "success lost"
        elif member.counts_failed(terms.replace_only_failed):
            assert not judge(terms.pod_failure_policy, pod).counts, "failure lost"
        else:
            assert is_true(self.job.status.conditions, "SuccessCriteriaMet"), "a pod that has not ended is let go"


def specs() -> st.SearchStrategy[dict[str, Any]]:
    size = st.integers(0, 4)
    common = {
        "backoffLimit": st.sampled_from([0, 2, 100]),
        "podReplacementPolicy": st.sampled_from([None, "Failed", "TerminatingOrFailed"]),
        "suspend": st.booleans(),
    }
    elastic = size.map(lambda size: {"completionMode": "Indexed", "completions": size, "parallelism": size})
    indexed = st.fixed_dictionaries(
        {"completionMode": st.just("Indexed"), "completions": size, "parallelism": st.integers(1, 4)}
    )
    counted = st.fixed_dictionaries({"completions": size, "parallelism": st.integers(1, 4)})
    queue = st.fixed_dictionaries({"parallelism": st.integers(1, 4)})
    per_index = st.fixed_dictionaries(
        {"backoffLimitPerIndex": st.integers(0, 2), "maxFailedIndexes": st.sampled_from([None, 1])}
    )
    success = st.just({"successPolicy": {"rules": [{"succeededIndexes": "0"}, {"succeededCount": 2}]}})
    policy = st.just({"podFailurePolicy": IGNORED, "podReplacementPolicy": "Failed"})
    nothing: st.SearchStrategy[dict[str, Any]] = st.just({})
    some_indexed = st.tuples(elastic | indexed, nothing | per_index, nothing | success)
    shape = some_indexed.map(lambda parts: parts[0] | parts[1] | parts[2]) | counted | queue
    parts = st.tuples(st.fixed_dictionaries(common), shape, nothing | policy)
    return parts.map(lambda found: {key: value for part in found for key, value in part.items() if value is not None})


class History(RuleBasedStateMachine):
    """`writing` is a decision that is being written while other things happen."""

    world: Audited
    writing: Iterator[str] | None = None

    @initialize(spec=specs())
    def begin(self, spec: dict[str, Any]) -> None:
        self.world = Audited(job_of(spec))
        self.known: set[str] = set()
        self.done: set[int] = set()  # as the status said at the last step

    # The controller.

    @rule()
    def decide_and_write_all(self) -> None:
        self.writing = None
        resumed = not self.world.job.spec.suspend and is_true(self.world.job.status.conditions, "Suspended")
        if self.world.sync() == ["status"] and not resumed:
            # The shell does not look again because of its own status, but where it was asked to.
            assert self.world.sync() == []

    @rule(writes=st.integers(1, 4))
    def write_some(self, writes: int) -> None:
        if self.writing is None:
            self.writing = self.world.writes()
        for _ in range(writes):
            if next(self.writing, None) is None:
                self.writing = None
                return

    @precondition(lambda self: self.world.active())
    @rule(writes=st.integers(1, 3), choice=st.integers(0, 9), suspend=st.booleans())
    def a_pod_succeeds_while_it_writes(self, writes: int, choice: int, suspend: bool) -> None:
        self.writing = None
        self.world.set_spec(suspend=suspend)
        rest = self.world.writes()
        for _ in zip(range(writes), rest, strict=False):
            pass
        self.a_pod_ends(choice, 0)
        list(rest)

    @rule()
    def crash(self) -> None:
        self.writing = None
        self.world.backoff = None

    @rule(rejected=st.integers(0, 2))
    def api_refuses_some_pods(self, rejected: int) -> None:
        self.writing = None
        self.world.create_limit = len(self.world.created) + rejected
        self.world.sync()
        self.world.create_limit = None

    @rule()
    def api_refuses_deletions(self) -> None:
        self.writing = None
        self.world.delete_fails = True
        self.world.sync()
        self.world.delete_fails = False

    # The nodes.

    @rule()
    def pods_start(self) -> None:
        self.world.start_pods()

    @rule(choice=st.integers(0, 9), exit_code=st.sampled_from([0, 1, 42]))
    def a_pod_ends(self, choice: int, exit_code: int) -> None:
        if pods := self.world.active():
            pod = pods[choice % len(pods)]
            self.world.set_phase(pod, "Failed" if exit_code else "Succeeded", exit_code=exit_code)

    @rule()
    def deleted_pods_end(self) -> None:
        self.world.end_deleted_pods()

    @rule(seconds=st.sampled_from([1, 10, 1000]))
    def time_passes(self, seconds: int) -> None:
        self.world.now += timedelta(seconds=seconds)

    # The users.

    @rule(choice=st.integers(0, 9))
    def a_pod_is_deleted(self, choice: int) -> None:
        if pods := self.world.active():
            self.world.delete(pods[choice % len(pods)])

    @rule(suspend=st.booleans())
    def suspend_or_resume(self, suspend: bool) -> None:
        self.world.set_spec(suspend=suspend)

    @precondition(lambda self: self.world.job.spec.completion_mode == "Indexed" and not self.world.ending())
    @rule(size=st.integers(0, 4))
    def scale(self, size: int) -> None:
        """KEP-3715: not once the end is announced."""
        self.world.scale(size)

    # What must always hold.

    @invariant()
    def no_index_runs_twice(self) -> None:
        if not hasattr(self, "world") or self.world.job.spec.completion_mode != "Indexed":
            return
        indexes = self.world.active_indexes()
        assert len(indexes) == len(set(indexes)), indexes

    @invariant()
    def what_is_done_is_not_begun_again(self) -> None:
        if not hasattr(self, "world") or self.world.job.spec.completion_mode != "Indexed":
            return
        done = Indexes.parse(self.world.job.status.completed_indexes, self.world.job.spec.completions or 0)
        fresh = [pod for pod in self.world.active() if pod.metadata.uid not in self.known]
        assert not [pod for pod in fresh if completion_index(pod) in self.done & set(done)]
        self.known |= {pod.metadata.uid for pod in fresh}
        self.done = set(done)

    @invariant()
    def a_finished_job_is_whole(self) -> None:
        if not hasattr(self, "world") or (end := finish(self.world.job)) is None:
            return
        terms, status = JobTerms.of(self.world.job), self.world.job.status
        assert not self.world.active()
        assert not any(Member.of(pod).tracked for pod in self.world.pods.values())
        if end.reason == "CompletionsReached" and terms.indexed:
            assert list(Indexes.parse(status.completed_indexes, 10**6)) == list(range(terms.completions or 0))
            assert status.succeeded == terms.completions

    def teardown(self) -> None:
        """Left alone, the Job ends."""
        if not hasattr(self, "world"):
            return
        world = self.world
        self.writing = None
        world.set_spec(suspend=False)
        for _ in range(20):
            world.settle()
            self.no_index_runs_twice()
            self.a_finished_job_is_whole()
            if finish(world.job) is not None:
                check_at_rest(world)
                return
            for pod in world.active():
                world.set_phase(pod, "Succeeded")
            world.now += timedelta(minutes=11)
        raise AssertionError(f"the Job does not end: {world.job.status}")


def check_at_rest(world: World) -> None:
    """Nothing more is written, and the counts are those of the pods."""
    writes = world.status_writes
    assert world.sync() == []
    assert world.status_writes == writes
    status = world.job.status
    assert (status.active, status.ready, status.terminating) == (0, 0, 0)
    assert all(completion_index(pod) < 10**6 for pod in world.pods.values())


TestHistories = History.TestCase
TestHistories.settings = settings(max_examples=max(150, settings().max_examples), stateful_step_count=40)
