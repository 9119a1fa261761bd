"""Who waits until the pods of the workload admitted before are ready (KEP-349, `blockAdmission`).

Upstream blocks everything, everywhere. Here it can also be asked for where it is needed: for a ClusterQueue (then it
blocks that ClusterQueue), for a ResourceFlavor (then it blocks who would get that flavor), or for a workload (then it
blocks who would get one of its flavors). The most specific word counts: the workload's, then that of the ClusterQueue,
then that of its flavors, then the Configuration's.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from muster.queueing.model import Usage, WorkloadInfo

MESSAGE: Final = "waiting for all admitted workloads to be in PodsReady condition"

_ALL: Final = "*"


class Blocking(Struct, frozen=True):
    """What blocks what.

    everything: by the Configuration. queues, flavors: where these say something themselves, what.
    """

    everything: bool = False
    queues: Mapping[str, bool] = field(default_factory=dict)
    flavors: Mapping[str, bool] = field(default_factory=dict)

    def closed_by(self, workload: WorkloadInfo, usage: Usage) -> Iterable[str]:
        """The scopes in which no workload is admitted while this workload is not ready."""
        flavors = {fr.flavor for fr in usage}
        if workload.blocks is not None:
            return [f"flavor/{flavor}" for flavor in flavors] if workload.blocks else []
        if (word := self.queues.get(workload.queue)) is not None:
            return [f"queue/{workload.queue}"] if word else []
        if marked := [flavor for flavor in flavors if flavor in self.flavors]:
            return [f"flavor/{flavor}" for flavor in marked if self.flavors[flavor]]
        return [_ALL] if self.everything else []


def scopes_of(workload: WorkloadInfo, usage: Usage) -> Iterable[str]:
    """The scopes that have to be open for a workload to get this."""
    return [_ALL, f"queue/{workload.queue}", *{f"flavor/{fr.flavor}" for fr in usage}]


class Closed:
    """Which scopes are closed, and by whom."""

    def __init__(self, blocking: Blocking | None, unready: Iterable[WorkloadInfo]) -> None:
        self._blocking = blocking
        self._by: dict[str, str] = {}
        if blocking is not None:
            for workload in unready:
                self.close(workload)

    def close(self, workload: WorkloadInfo) -> None:
        """Its pods have to get ready first."""
        if self._blocking is None:
            return
        for scope in self._blocking.closed_by(workload, workload.usage or {}):
            self._by.setdefault(scope, workload.key)

    def blocker(self, workload: WorkloadInfo, usage: Usage) -> str:
        """The key of the workload that has to be ready before this one is admitted; "" is none."""
        if not self._by:
            return ""
        return next((self._by[scope] for scope in scopes_of(workload, usage) if scope in self._by), "")
