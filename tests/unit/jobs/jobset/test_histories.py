"""Random histories of one JobSet: its Jobs run, fail, succeed and are deleted, it is suspended, resumed and scaled, and
the controller is killed between any two of its writes. Whatever happens, no two Jobs have one name, what has ended
begins nothing, and in the end it ends.
"""

from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.jobs.jobset.world import World, jobset, role

from muster.api.jobset import names
from muster.jobs.job.conditions import finish
from muster.jobs.jobset.status import says_it_runs

RULES = [
    {"name": "all", "action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["Evicted"]},
    {"name": "one", "action": "RestartJob", "onJobFailureReasons": ["FailedIndexes"]},
]
POLICIES = st.sampled_from(
    [None, {"maxRestarts": 2, "restartStrategy": "Recreate", "rules": RULES}]
    + [{"maxRestarts": 3, "restartStrategy": strategy} for strategy in ("Recreate", "BlockingRecreate")]
)
ROLES = st.sampled_from(
    [
        ({}, [role("a", 2), role("b", 2, 3)]),
        ({}, [role("a", 2), role("b", 2, depends={"a": "Ready"}), role("c", depends={"b": "Complete"})]),
        ({}, [role("a", 2, completions=3), role("b", depends={"a": "Ready"})]),
        ({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, [role("a", 2), role("b", 2), role("c")]),
        ({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, [role("a", 2, completions=3), role("b")]),
    ]
)


class History(RuleBasedStateMachine):
    """What may happen to a JobSet."""

    world: World

    @initialize(roles=ROLES, policy=POLICIES, suspend=st.booleans(), operator=st.sampled_from(["All", "Any"]))
    def begin(self, roles, policy, suspend, operator):
        spec, found = roles
        if policy is not None:
            spec = spec | {"failurePolicy": policy}
        self.roles = found
        self.world = World(jobset(*found, suspend=suspend, successPolicy={"operator": operator}, **spec))

    @rule(writes=st.integers(0, 6))
    def killed_while_it_looks(self, writes):
        self.world.look(writes)

    @rule()
    def looks(self):
        self.world.look()

    @rule()
    def goes(self):
        """What is being deleted is gone."""
        for name in [name for name, job in self.world.jobs.items() if job.metadata.deletion_timestamp is not None]:
            del self.world.jobs[name]

    @rule(data=st.data(), what=st.sampled_from(["ready", "succeeds", "fails", "evicted", "index fails", "deleted"]))
    def happens_to_a_job(self, data, what):
        living = [name for name, job in self.world.jobs.items() if not finish(job)]
        if not living:
            return
        name = data.draw(st.sampled_from(living))
        job = self.world.jobs[name]
        if what == "deleted":
            self.world.delete(name)
        elif not job.spec.suspend and what == "ready":
            self.world.report(name, start_time=self.world.now, active=1, ready=job.spec.parallelism)
        elif not job.spec.suspend and what == "succeeds":
            self.world.end(name, "Complete")
        elif not job.spec.suspend:
            reason = {"evicted": "Evicted", "index fails": "FailedIndexes"}.get(what, "BackoffLimitExceeded")
            self.world.end(name, "Failed", reason)

    @rule()
    def some_pods_succeed(self):
        """In every Job that runs one, but for the last of it."""
        for name, job in self.world.jobs.items():
            done = job.status.succeeded + 1
            if not job.spec.suspend and not finish(job) and done < (job.spec.completions or 0):
                self.world.report(name, start_time=self.world.now, active=0, ready=0, succeeded=done)

    @rule()
    def pods_of_others_run(self):
        for name, job in self.world.jobs.items():
            if not job.spec.suspend and not finish(job):
                self.world.report(name, start_time=self.world.now, active=1, ready=job.spec.parallelism)

    @rule()
    def pods_of_suspended_jobs_go(self):
        for name, job in self.world.jobs.items():
            if job.spec.suspend and not finish(job):
                self.world.report(name, active=0, ready=0, start_time=None)

    @precondition(lambda self: not self.world.jobset.status.terminal_state)
    @rule(suspend=st.booleans())
    def user_suspends_or_resumes(self, suspend):
        self.world.change(suspend=suspend)

    @precondition(lambda self: self.world.jobset.spec.suspend)
    @rule(node=st.sampled_from(["n", "m"]))
    def user_moves_a_suspended_one(self, node):
        self.move(node)

    @precondition(lambda self: not self.world.jobset.status.terminal_state)
    @rule(node=st.sampled_from(["n", "m"]), writes=st.integers(0, 6))
    def a_queue_moves_it_before_its_pods_are_gone(self, node, writes):
        self.pods_of_others_run()
        self.world.change(suspend=True)
        self.world.look(writes)
        self.move(node)
        self.world.change(suspend=False)
        self.world.look()

    @precondition(lambda self: not self.world.jobset.status.terminal_state)
    @rule(writes=st.integers(0, 6))
    def a_queue_takes_its_place_when_part_of_it_is_done(self, writes):
        self.pods_of_others_run()
        self.some_pods_succeed()
        self.world.change(suspend=True)
        self.world.look(writes)
        self.world.look()
        self.world.suspended()

    def move(self, node):
        first = self.roles[0]
        pods = {"nodeSelector": {"node": node}, "containers": [{"name": "main", "image": "none"}]}
        template = first["template"] | {"spec": first["template"]["spec"] | {"template": {"spec": pods}}}
        self.roles = [first | {"template": template}, *self.roles[1:]]
        self.world.change(replicatedJobs=self.roles)

    @precondition(lambda self: not self.world.jobset.status.terminal_state)
    @rule(replicas=st.integers(1, 4))
    def user_scales_the_first_role(self, replicas):
        self.roles = [self.roles[0] | {"replicas": replicas}, *self.roles[1:]]
        self.world.change(replicatedJobs=self.roles)

    @rule()
    def time_passes(self):
        self.world.now += timedelta(seconds=1)

    @invariant()
    def what_has_ended_begins_nothing(self):
        if not hasattr(self, "world"):
            return
        if self.world.jobset.status.terminal_state:
            before = len(self.world.created)
            self.world.look()
            assert len(self.world.created) == before
            assert all(finish(job) or job.metadata.deletion_timestamp for job in self.world.jobs.values())

    @invariant()
    def quota_is_held_for_whatever_runs(self):
        if not hasattr(self, "world") or says_it_runs(self.world.jobset.status) or self.world.state():
            return
        living = [job for job in self.world.jobs.values() if not finish(job) and not job.metadata.deletion_timestamp]
        assert all(job.spec.suspend for job in living)

    @invariant()
    def conditions_are_what_they_can_be(self):
        if not hasattr(self, "world"):
            return
        status = self.world.jobset.status
        state = self.world.state()
        assert state in ("", "Completed", "Failed")
        assert status.restarts_count_towards_max <= status.restarts
        assert not (self.world.condition(names.COMPLETED) and self.world.condition(names.FAILED))

    def teardown(self):
        """Left alone, with Jobs that all succeed, it ends, and settles."""
        if not hasattr(self, "world"):
            return
        self.world.change(suspend=False)
        for _ in range(40):
            self.world.collect()
            if self.world.jobset.status.terminal_state:
                break
            self.world.suspended()
            going_on = [name for name, job in self.world.jobs.items() if not finish(job) and not job.spec.suspend]
            if going_on:
                self.world.complete(*going_on)
        assert self.world.state()
        self.world.settle()


TestHistories = History.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=30)
