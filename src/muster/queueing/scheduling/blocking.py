"""Decide which workloads wait until the pods of earlier workloads are ready (Kueue KEP-349, `blockAdmission`).

Upstream blocks the whole cluster. Here blocking can also be set for one object:

- for a ClusterQueue: it blocks that ClusterQueue;
- for a ResourceFlavor: it blocks the workloads that would get that flavor;
- for a workload: it blocks the workloads that would get one of its flavors.

The most specific setting applies: the workload's, then its ClusterQueue's, then its flavors', then the Configuration's.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from muster.queueing.model import Usage, WorkloadInfo

MESSAGE: Final = "waiting for all admitted workloads to be in PodsReady condition"

_ALL: Final = "*"


class Blocking(Struct, frozen=True):
    """The settings by which a workload whose pods are not ready blocks others.

    everything: the setting of the Configuration.
    queues, flavors: the settings of single ClusterQueues and ResourceFlavors, by name.
    """

    everything: bool = False
    queues: Mapping[str, bool] = field(default_factory=dict)
    flavors: Mapping[str, bool] = field(default_factory=dict)

    def list_blocked_by(self, workload: WorkloadInfo, usage: Usage) -> Iterable[str]:
        """Return the scopes that this workload blocks while its pods are not ready.

        usage: the quota that the workload has or would get.
        """
        flavors = {fr.flavor for fr in usage}
        if workload.blocks is not None:
            return [f"flavor/{flavor}" for flavor in flavors] if workload.blocks else []
        if (setting := self.queues.get(workload.queue)) is not None:
            return [f"queue/{workload.queue}"] if setting else []
        if configured := [flavor for flavor in flavors if flavor in self.flavors]:
            return [f"flavor/{flavor}" for flavor in configured if self.flavors[flavor]]
        return [_ALL] if self.everything else []


def scopes_of(workload: WorkloadInfo, usage: Usage) -> Iterable[str]:
    """Return the scopes in which a workload with this usage would be admitted.

    If one of the scopes is blocked, the workload cannot be admitted.
    """
    return [_ALL, f"queue/{workload.queue}", *{f"flavor/{fr.flavor}" for fr in usage}]


class BlockedScopes:
    """The scopes in which no workload is admitted, each with the workload that blocks it.

    A scope is the whole cluster, a ClusterQueue or a flavor. A workload blocks its scopes until its pods are ready.
    """

    def __init__(self, blocking: Blocking | None, unready: Iterable[WorkloadInfo]) -> None:
        self._blocking = blocking
        self._closers: dict[str, str] = {}
        if blocking is not None:
            for workload in unready:
                self.close(workload)

    def close(self, workload: WorkloadInfo) -> None:
        """Block the scopes of a workload whose pods are not ready."""
        if self._blocking is None:
            return
        for scope in self._blocking.list_blocked_by(workload, workload.usage or {}):
            self._closers.setdefault(scope, workload.key)

    def blocker(self, workload: WorkloadInfo, usage: Usage) -> str:
        """Return the key of the workload whose pods must be ready before this one is admitted; "" if there is none."""
        if not self._closers:
            return ""
        return next((self._closers[scope] for scope in scopes_of(workload, usage) if scope in self._closers), "")
