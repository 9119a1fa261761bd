"""A JobSet and its Jobs in memory: each look carries out what is decided, and the test plays the Job controller."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.api.batch import Job, JobCondition
from muster.api.conditions import find, is_true
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.meta import Condition
from muster.api.notes import Note
from muster.jobs.job.conditions import finish
from muster.jobs.jobset.decide import decide
from muster.jobs.jobset.plan import JobChange, JobSetPlan
from muster.jobs.jobset.status import says_it_runs
from muster.jobs.jobset.terms import is_suspended

START = datetime(2026, 1, 1, tzinfo=UTC)


def role(name: str, replicas: int = 1, pods: int = 1, **fields: Any) -> dict[str, Any]:
    """A replicated job of Indexed Jobs; `depends` as {role: status}, further fields are its Jobs' spec."""
    depends = [{"name": other, "status": status} for other, status in fields.pop("depends", {}).items()]
    template = fields.pop("template", {"spec": {"containers": [{"name": "main", "image": "none"}]}})
    meta = {"labels": fields.pop("labels", {}), "annotations": fields.pop("annotations", {})}
    group = {"groupName": fields.pop("group")} if "group" in fields else {}
    spec = {"completionMode": "Indexed", "parallelism": pods, "completions": pods, "template": template} | fields
    return {
        "name": name,
        "replicas": replicas,
        "dependsOn": depends,
        "template": {"metadata": meta, "spec": spec},
    } | group


# What most of upstream's tests run: one Job, and three.
ROLES = (role("replicated-job-a", 1), role("replicated-job-b", 3))


def jobset(
    *roles: dict[str, Any], name: str = "js", annotations: Any = None, status: Any = None, **spec: Any
) -> JobSet:
    """A JobSet as the server has it."""
    defaults = {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All"},
    }
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": "js-uid", "annotations": annotations or {}},
        "spec": defaults | {"replicatedJobs": list(roles or ROLES)} | spec,
        "status": status or {},
    }
    return msgspec.convert(document, JobSet)


class World:
    """The JobSet, its Jobs by name, and what was told."""

    def __init__(self, made: JobSet) -> None:
        self.now = START
        self.jobset = made
        self.jobs: dict[str, Job] = {}
        self.notes: list[Note] = []
        self.created: list[str] = []
        self.expired = False
        self._uids = 0

    # The controller.

    def look(self, writes: int = 1_000_000) -> bool:
        """One decision, carried out; whether it did anything. After so many writes the controller is killed."""
        plan = decide(self.jobset, tuple(self.jobs.values()), now=self.now)
        self.check(plan)
        steps: list[Callable[[], None]] = [
            *(partial(self.delete, job.metadata.name) for job in plan.delete),
            *(partial(self._change, change) for change in plan.change),
            *(partial(self._create, job) for job in plan.create),
        ]
        if plan.status != self.jobset.status:
            begins = not is_suspended(self.jobset) and not says_it_runs(self.jobset.status)
            steps.insert(0 if begins else len(steps), partial(self._store, plan))
        for step in steps[:writes]:
            step()
        self.expired |= plan.expired
        return bool(steps)

    def settle(self) -> None:
        """Look until there is nothing left to do."""
        for _ in range(50):
            if not self.look():
                return
        raise AssertionError("it never settles")

    def check(self, plan: JobSetPlan) -> None:
        """What holds for every plan."""
        create = [job.metadata.name for job in plan.create]
        assert len(set(create)) == len(create)
        assert not set(create) & set(self.jobs), "no two Jobs of one name"
        assert not {job.metadata.name for job in plan.delete} & {change.job.metadata.name for change in plan.change}
        assert all(job.metadata.deletion_timestamp is None for job in plan.delete)
        begin = [*plan.create, *(change.wanted for change in plan.change)]
        assert says_it_runs(plan.status) or all(job.spec.suspend for job in begin)

    def _change(self, change: JobChange) -> None:
        """As the server allows it: a template changes only while its Job is suspended and has no pods."""
        job = self.jobs[change.job.metadata.name]
        if change.wanted.spec.template != job.spec.template:
            assert job.spec.suspend
            stopped = is_true(job.status.conditions, "Suspended") and job.status.active == 0
            assert job.status.start_time is None or stopped
        self.jobs[job.metadata.name] = replace(job, metadata=change.wanted.metadata, spec=change.wanted.spec)

    def _store(self, plan: JobSetPlan) -> None:
        assert plan.status.restarts >= self.jobset.status.restarts, "attempts are never taken back"
        self.jobset = replace(self.jobset, status=plan.status)
        self.notes += plan.notes

    def _create(self, job: Job) -> None:
        self._uids += 1
        meta = replace(job.metadata, uid=f"uid-{self._uids}", creation_timestamp=self.now)
        pods = job.spec.template
        labels = pods.metadata.labels | {"batch.kubernetes.io/job-name": meta.name}
        template = replace(pods, metadata=replace(pods.metadata, labels=labels))
        self.jobs[meta.name] = replace(job, metadata=meta, spec=replace(job.spec, template=template))
        self.created.append(meta.name)

    # The user.

    def change(self, **spec: Any) -> None:
        """Change fields of the spec."""
        changed = msgspec.to_builtins(self.jobset.spec) | spec
        self.jobset = replace(self.jobset, spec=msgspec.convert(changed, type(self.jobset.spec)))

    def set(self, **spec: Any) -> None:
        """Change fields of the spec, and let it settle."""
        self.change(**spec)
        self.settle()

    def delete(self, name: str) -> None:
        """Ask for the deletion of a Job."""
        job = self.jobs[name]
        self.jobs[name] = replace(job, metadata=replace(job.metadata, deletion_timestamp=self.now))

    def collect(self, most: int = 1_000_000) -> None:
        """Jobs that are being deleted go, and so many of them."""
        going = [name for name, job in self.jobs.items() if job.metadata.deletion_timestamp is not None]
        for name in going[:most]:
            del self.jobs[name]
        self.settle()

    # The Job controller.

    def report(self, name: str, **status: Any) -> None:
        """What the Job says of itself."""
        job = self.jobs[name]
        self.jobs[name] = replace(job, status=replace(job.status, **status))

    def ready(self, *jobs: str) -> None:
        """All pods of these Jobs are ready."""
        for name in jobs:
            pods = self.jobs[name].spec.parallelism or 0
            self.report(name, start_time=self.now, active=pods, ready=pods)
        self.settle()

    def active(self, *jobs: str) -> None:
        """They have a pod that is not ready."""
        for name in jobs:
            self.report(name, start_time=self.now, active=1)
        self.settle()

    def end(self, name: str, type: str, reason: str = "", message: str = "") -> None:
        """The Job ends, and nothing else happens yet."""
        condition = JobCondition(
            type=type, status="True", reason=reason, message=message, last_transition_time=self.now
        )
        self.report(name, active=0, ready=0, conditions=(condition,))

    def complete(self, *jobs: str) -> None:
        """These Jobs succeed; all that there are, if none is named."""
        for name in jobs or tuple(self.jobs):
            self.end(name, "Complete")
        self.settle()

    def fail(self, name: str, reason: str = "BackoffLimitExceeded", message: str = "") -> None:
        """A Job fails."""
        self.end(name, "Failed", reason, message)
        self.settle()

    def suspended(self, *jobs: str) -> None:
        """The Job controller has taken the pods of suspended Jobs away."""
        condition = JobCondition(type="Suspended", status="True", last_transition_time=self.now)
        for name in jobs or [name for name, job in self.jobs.items() if job.spec.suspend and not finish(job)]:
            self.report(name, active=0, ready=0, start_time=None, conditions=(condition,))
        self.settle()

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += timedelta(seconds=seconds)
        self.settle()

    # What is seen.

    @property
    def attempts(self) -> dict[int, int]:
        """How many Jobs there are of each attempt."""
        return dict(Counter(int(job.metadata.labels[names.RESTART_ATTEMPT]) for job in self.jobs.values()))

    @property
    def restarts(self) -> tuple[int, int]:
        """Of the JobSet: all, and those that count."""
        return self.jobset.status.restarts, self.jobset.status.restarts_count_towards_max

    def counts(self) -> dict[str, tuple[int, int, int, int, int]]:
        """Of each role, how many Jobs are ready, succeeded, failed, active, suspended."""
        return {
            record.name: (record.ready, record.succeeded, record.failed, record.active, record.suspended)
            for record in self.jobset.status.replicated_jobs_status
        }

    def job_restarts(self) -> list[tuple[int, ...]]:
        """Of each role, how many times its Jobs were restarted by themselves."""
        return [record.job_restarts for record in self.jobset.status.replicated_jobs_status]

    def conditions(self) -> list[Condition]:
        """Of the JobSet."""
        return list(self.jobset.status.conditions)

    def suspends(self, name: str) -> bool:
        """Whether a Job does."""
        return bool(self.jobs[name].spec.suspend)

    def condition(self, type: str) -> tuple[str, str] | None:
        """Status and reason of a condition of the JobSet."""
        found = find(self.jobset.status.conditions, type)
        return (found.status, found.reason) if found is not None else None

    def state(self) -> str:
        """Its terminal state; "" while it goes on."""
        assert (self.condition(names.COMPLETED) is not None) == (self.jobset.status.terminal_state == "Completed")
        assert (self.condition(names.FAILED) is not None) == (self.jobset.status.terminal_state == "Failed")
        return self.jobset.status.terminal_state

    def reasons(self) -> list[str]:
        """Of the events."""
        return [note.reason for note in self.notes]


def begun(*roles: dict[str, Any], **spec: Any) -> World:
    """A JobSet whose first Jobs have been made."""
    world = World(jobset(*roles, **spec))
    world.settle()
    return world


def job_of(made: JobSet, name: str, **labels: str) -> Job:
    """A Job that the JobSet controls, with labels by the names in `muster.api.jobset.names`."""
    document = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"{name}-uid",
            "labels": {getattr(names, key): value for key, value in labels.items()},
        }
    }
    job = msgspec.convert(document, Job)
    return replace(job, metadata=replace(job.metadata, owner_references=(JOB_SET.refer_to_controller(made.metadata),)))
