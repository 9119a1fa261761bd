"""What a test says of JobSets on a control plane in virtual time: manifests, and Jobs that run as the test says."""

from collections import Counter
from typing import Any

import msgspec
from tests.system.plane import World

from muster.api.batch import JOB, Job
from muster.api.conditions import find
from muster.api.core import EVENT, POD, Event
from muster.api.jobset import JOB_SET, JobSet, names
from muster.controllers.engine import Part
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# Without Part.JOBS the test plays the Job controller.
PARTS = (Part.JOBSETS,)


def role(name: str = "workers", replicas: int = 2, pods: int = 1, **fields: Any) -> dict[str, Any]:
    """A replicated job; `spec` of its Jobs, and `depends` of it as {role: status}."""
    container = {"name": "main", "image": "none", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template} | fields.pop("spec", {})
    depends = [{"name": other, "status": status} for other, status in fields.pop("depends", {}).items()]
    needs = {"dependsOn": depends} if depends else {}
    return {"name": name, "replicas": replicas, "template": {"spec": spec} | fields} | needs


class Words:
    """What is said about one JobSet, `js`."""

    client: Client
    clock: Clock

    async def settle(self, seconds: float = 5.0) -> None:
        """Let everybody do what they have to do."""
        await self.clock.sleep(seconds)

    async def jobset(self, *roles: dict[str, Any], name: str = "js", meta: Any = None, **spec: Any) -> JobSet:
        """Create it, and let the controller see it."""
        document = {
            "metadata": {"name": name} | (meta or {}),
            "spec": {"replicatedJobs": list(roles) or [role()]} | spec,
        }
        made = await self.client.create(JOB_SET, msgspec.convert(document, JobSet), "default")
        await self.settle()
        return made

    async def seen(self, name: str = "js") -> JobSet:
        """The JobSet as it is."""
        return await self.client.get(JOB_SET, name, "default")

    async def change(self, name: str = "js", **spec: Any) -> None:
        """Change fields of its spec."""
        await self.client.patch(JOB_SET, name, {"spec": spec}, "default")
        await self.settle()

    async def jobs(self) -> dict[str, Job]:
        """All Jobs by name."""
        found = (await self.client.list(JOB, "default")).items
        return {job.metadata.name: job for job in sorted(found, key=lambda job: job.metadata.name)}

    async def attempts(self) -> Counter[str]:
        """How many Jobs there are of each attempt."""
        return Counter(job.metadata.labels[names.RESTART_ATTEMPT] for job in (await self.jobs()).values())

    async def report(self, job: str, **status: Any) -> None:
        """Play the Job controller: the Job's status, in the names of its JSON."""
        await self.client.patch(
            JOB, job, {"status": status}, "default", type=STRATEGIC_MERGE_PATCH, subresource="status"
        )

    async def ready(self, *jobs: str, pods: int = 1) -> None:
        """All their pods are ready."""
        for job in jobs:
            await self.report(job, startTime=self._now(), active=pods, ready=pods)
        await self.settle()

    async def announce(self, job: str) -> None:
        """It is about to succeed: its pods have ended and are not counted yet."""
        ends = [self._condition("SuccessCriteriaMet", "CompletionsReached", "")]
        await self.report(job, conditions=ends, active=0, ready=0)

    async def complete(self, *jobs: str) -> None:
        """They have succeeded."""
        for job in jobs:
            found = (await self.jobs())[job]
            count = found.spec.completions or 1
            done = {"active": 0, "ready": 0, "succeeded": count, "completionTime": self._now()}
            if found.status.start_time is None:
                done["startTime"] = self._now()
            if found.spec.completion_mode == "Indexed":
                done["completedIndexes"] = f"0-{count - 1}" if count > 2 else ",".join(map(str, range(count)))
            ends = [self._condition(type, "CompletionsReached", "") for type in ("SuccessCriteriaMet", "Complete")]
            await self.report(job, conditions=ends, **done)
        await self.settle()

    async def fail(self, job: str, reason: str = "BackoffLimitExceeded", message: str = "") -> None:
        """It has failed."""
        ends = [self._condition(type, reason, message) for type in ("FailureTarget", "Failed")]
        await self.report(job, conditions=ends, active=0, ready=0, failed=1, startTime=self._now())
        await self.settle()

    async def condition(self, type: str, name: str = "js") -> tuple[str, str, str] | None:
        """Status, reason and message of a condition of the JobSet."""
        found = find((await self.seen(name)).status.conditions, type)
        return (found.status, found.reason, found.message) if found is not None else None

    async def counts(self) -> dict[str, tuple[int, int, int, int, int]]:
        """Of each role, how many Jobs are ready, succeeded, failed, active, suspended."""
        return {
            record.name: (record.ready, record.succeeded, record.failed, record.active, record.suspended)
            for record in (await self.seen()).status.replicated_jobs_status
        }

    async def events(self) -> list[Event]:
        """What was told of JobSets."""
        found = (await self.client.list(EVENT, "default")).items
        return [event for event in found if event.involved_object.kind == "JobSet"]

    async def reasons(self) -> set[str]:
        """Why."""
        return {event.reason for event in await self.events()}

    def _now(self) -> str:
        return self.clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")

    def _condition(self, type: str, reason: str, message: str) -> dict[str, str]:
        now = self._now()
        return {
            "type": type,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
            "lastProbeTime": now,
        }


class Cluster(World, Words):
    """A world of JobSets."""

    async def nodes_let_go(self) -> None:
        """The containers of pods that are being deleted have ended."""
        for pod in await self.pods():
            if pod.metadata.deletion_timestamp is not None:
                await self.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
        await self.settle()

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.plane.manager.registry.text().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.partition("{")[0].split(" ")[0] == name)
