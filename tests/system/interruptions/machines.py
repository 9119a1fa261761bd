"""Nodes that play pods by rule, lose power, boot, shut down and get lost, and that hold a group at its barrier.

What a node says of pods that ended so is what a process node says of them.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from muster.api.batch import COMPLETION_INDEX, JOB_NAME_LABEL
from muster.api.core import CONFIG_MAP, NODE, POD, ConfigMap, Pod
from muster.api.jobset import names
from muster.api.ours.embedded import CLUSTER_STOPPED
from muster.api.pods import SHUTDOWN_MESSAGE, is_deleting, is_finished
from muster.cluster.nodes.node_object import LEASE_SECONDS
from muster.cluster.nodes.pod import restoring
from muster.cluster.nodes.pod.status import SHUTDOWN_REASON
from muster.cluster.nodes.simulated.leases import SimulatedLeases
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.cluster.nodes.simulated.stages import DEFAULT_STAGES, Stage
from muster.jobs.jobset.start.barrier import STARTED, config_map_name, make_barrier_word
from muster.jobs.jobset.start.group import find_started_member
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.objects import key_of
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

GROUP_SIZE = "muster.test/group-size"
"""On the pods of a group that starts together: how many they are, for the account of the nodes."""

Place = tuple[str, str]
"""A Job's name and a completion index."""

CPUS = 2  # of each node
# Of nodes that end their own pods when they have not reached the server for as long as those bear it.
_FENCED, _UNREACHABLE = "muster.dev/fenced", "node.kubernetes.io/unreachable"
_LOOK_SECONDS = 1.0  # how often a kubelet brings the files of a waiting pod up to date
_UNKNOWN = {"terminated": {"exitCode": restoring.KILLED_CODE, "reason": restoring.UNKNOWN_REASON}}
_TERMINATED = {"terminated": {"exitCode": 143, "reason": "Error"}}


def uneven(seconds: float) -> tuple[Stage, ...]:
    """Return the stages by which pods of one run time end up to so many seconds apart."""
    return tuple(
        msgspec.structs.replace(stage, delay=msgspec.structs.replace(stage.delay, jitter_seconds=seconds))
        if stage.next.to == "end"
        else stage
        for stage in DEFAULT_STAGES
    )


class Machines(SimulatedNodes):
    """Some nodes that are alike. Runs under a `Manager` whose connection has no troubles.

    dark: the nodes without power. early: what began before its group had arrived whole, in words.
    leases: renews the Leases, once there are any.
    """

    def __init__(self, manager: Manager, names: Sequence[str], *, spread_seconds: float) -> None:
        resources = {"cpu": str(CPUS)}
        super().__init__(manager, names, resources=resources, stages=uneven(spread_seconds))
        self.dark: set[str] = set()
        self._dark_since: dict[str, float] = {}
        self.early: list[str] = []
        self.leases: MachineLeases | None = None
        self._config_maps = manager.informer(CONFIG_MAP)
        self._arrived: defaultdict[tuple[str, str], set[Place]] = defaultdict(set)
        self._done: defaultdict[str, set[Place]] = defaultdict(set)
        self._pods.on_change(self._note_success)
        self._boots = 0

    async def begin(self) -> None:
        """Let each node say that it has booted."""
        for name in sorted(self.node_names):
            await self._return(name, "boot-0")

    def cut_power(self, name: str) -> None:
        """Nothing of the node goes on, and it says nothing any more."""
        self.dark.add(name)
        self._dark_since[name] = self._clock.monotonic()

    async def boot(self, name: str) -> None:
        """The node has power again, registers, and finds that its containers are gone."""
        self._boots += 1
        conditions = [self._disrupted("DisruptionTarget", restoring.UNKNOWN_MESSAGE)]
        for pod in self._pods_on(name):
            await self._report(pod, "", restoring.UNKNOWN_MESSAGE, _UNKNOWN, conditions)
        await self._return(name, f"boot-{self._boots}")

    async def reconnect(self, name: str) -> None:
        """The node, which had lost its connection and not its power, goes on. Its fence has ended pods meanwhile."""
        silent = self._clock.monotonic() - self._dark_since.get(name, math.inf)
        for pod in self._pods_on(name):
            borne = [one.toleration_seconds for one in pod.spec.tolerations if one.key == _UNREACHABLE]
            if silent > LEASE_SECONDS / 2 + min((each for each in borne if each is not None), default=math.inf):
                await self._report(pod, "NodeLost", "", _TERMINATED, [self._disrupted("DisruptionTarget", "")])
        await self._return(name, f"boot-{self._boots}")

    async def shut_down(self, name: str, *, with_cluster: bool = False) -> None:
        """End the pods of a node in good order, and say why; then it is dark."""
        types = ("DisruptionTarget", CLUSTER_STOPPED) if with_cluster else ("DisruptionTarget",)
        conditions = [self._disrupted(type_, SHUTDOWN_MESSAGE) for type_ in types]
        for pod in self._pods_on(name):
            await self._report(pod, SHUTDOWN_REASON, SHUTDOWN_MESSAGE, _TERMINATED, conditions)
        self.cut_power(name)

    async def renew(self, name: str) -> None:
        """Correct what the server says of a node that lives, as a node does with every heartbeat."""
        if name not in self.dark:
            await self._register(name)

    def _disrupted(self, type_: str, message: str) -> dict[str, Any]:
        why = {"status": "True", "reason": "TerminationByKubelet", "message": message}
        return {"type": type_, **why, "lastTransitionTime": self._moment()}

    async def _return(self, name: str, boot: str) -> None:
        self.dark.discard(name)
        with ignoring("NotFound"):  # it was lost again meanwhile
            await self._register(name)
            await self._client.patch(NODE, name, {"metadata": {"annotations": {_FENCED: "true"}}})
            await self._client.patch(NODE, name, {"status": {"nodeInfo": {"bootID": boot}}}, subresource="status")
        for pod in self._pods_on(name):
            self._controller.queue.add(key_of(pod))
        if self.leases is not None:
            await self.leases.renew_now(name)

    def _pods_on(self, name: str) -> list[Pod]:
        return [pod for pod in self._pods.all() if pod.spec.node_name == name]

    def _moment(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    async def _report(
        self, pod: Pod, reason: str, message: str, state: dict[str, Any], conditions: Iterable[dict[str, Any]] = ()
    ) -> None:
        """Say that a pod has failed, if it has not ended before."""
        if is_finished(pod):
            return
        statuses = [{"name": each.name, "ready": False, "state": state} for each in pod.spec.containers]
        unready = {"type": "Ready", "status": "False", "lastTransitionTime": self._moment()}
        patch = {
            "phase": "Failed",
            "reason": reason or None,
            "message": message,
            "containerStatuses": statuses if pod.status.container_statuses else [],
            "conditions": [unready, *conditions],
        }
        with ignoring("NotFound", "Conflict"):
            await self._client.patch_object(
                POD, pod, {"status": patch}, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
            )

    # What the rules of simulated nodes do not have.

    async def _reconcile(self, key: str) -> Result:
        if key in self.dark:
            return None
        pod = self._pods.get(key)
        if pod is not None and pod.spec.node_name in self.dark:
            return None
        if pod is not None and self._stands_at_barrier(pod):
            wait = await self._hold(pod)
            if wait is not None:
                return wait
        return await super()._reconcile(key)

    def _stands_at_barrier(self, pod: Pod) -> bool:
        waits = any(each.name == names.GROUP_SCHEDULING_INIT for each in pod.spec.init_containers)
        mine = pod.spec.node_name in self.node_names
        return mine and waits and pod.status.phase == "Pending" and not is_deleting(pod)

    async def _hold(self, pod: Pod) -> Result:
        """Let the pod arrive; return None once it may begin."""
        labels, epoch = pod.metadata.labels, pod.metadata.annotations[names.GROUP_SCHEDULING_EPOCH]
        group = labels[names.JOBSET_UID], epoch
        if find_started_member(pod) is None:
            status = [{"name": names.GROUP_SCHEDULING_INIT, "image": "", "imageID": "", "state": {"running": {}}}]
            self._arrived[group].add(_place(pod))
            with ignoring("NotFound", "Conflict"):
                await self._client.patch_object(
                    POD,
                    pod,
                    {"status": {"initContainerStatuses": status}},
                    lock=False,
                    type=STRATEGIC_MERGE_PATCH,
                    subresource="status",
                )
            return _LOOK_SECONDS
        known: ConfigMap | None = self._config_maps.get(
            f"{pod.metadata.namespace}/{config_map_name(labels[names.JOBSET_NAME])}"
        )
        if known is None or known.data.get(STARTED) != make_barrier_word(labels[names.JOBSET_UID], int(epoch)):
            return _LOOK_SECONDS
        there = self._arrived[group] | self._done[labels[names.JOBSET_UID]]
        if len(there) < int(pod.metadata.annotations.get(GROUP_SIZE, "0")):
            self.early.append(f"{pod.metadata.name} began in epoch {epoch} when {len(there)} were there")
        return None

    def _note_success(self, _: Pod | None, pod: Pod | None) -> None:
        """Note what of a group has succeeded and does not start again; the pod may be collected with its node."""
        if pod is not None and pod.status.phase == "Succeeded" and names.JOBSET_UID in pod.metadata.labels:
            self._done[pod.metadata.labels[names.JOBSET_UID]].add(_place(pod))


class MachineLeases(SimulatedLeases):
    """Renews the Leases of the nodes that have power. Runs under a `Manager`, beside them."""

    def __init__(self, manager: Manager, machines: Machines) -> None:
        super().__init__(manager, sorted(machines.node_names))
        self._machines = machines

    async def begin(self) -> None:
        """Give each node its Lease: before that, no node has promised anything."""
        for name in self._names:
            await self.renew_now(name)
        self._machines.leases = self

    async def renew_now(self, name: str) -> None:
        """Renew the Lease of a node that has just registered, as a node does that boots."""
        while self._nodes.get(name) is None and name not in self._machines.dark:
            await self._clock.sleep(0.1)
        await self._renew(name)

    async def _renew(self, name: str) -> None:
        if name not in self._machines.dark:
            await super()._renew(name)
            await self._machines.renew(name)


def _place(pod: Pod) -> Place:
    return pod.metadata.labels[JOB_NAME_LABEL], pod.metadata.annotations[COMPLETION_INDEX]
