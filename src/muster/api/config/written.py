"""Defines what a file may say, in either version, and what it means.

v1beta1 is what Kueue read first and v1beta2 what it reads today; the file of each is completed by the rules of its own
version. They differ in two defaults: `waitForPodsReady` is off in v1beta1 unless `enable` says otherwise and is then
as strict as at first (5 minutes, admission blocked), while in v1beta2 it is always on (30 minutes, not blocking); and
`fairSharing` is on in v1beta2 if it is there at all.

Kueue KEP-349 has `timeoutSeconds`, counted from the start of the job; it has the KEP's own defaults in either version:
admission is blocked, and pods that were ready once are not waited for.
"""

from typing import Annotated, TypeAlias

import msgspec

from muster.api.config.types import (
    OLD,
    V1BETA1,
    CommonSettings,
    Configuration,
    Duration,
    FairSharing,
    Integrations,
    RequeuingStrategy,
    WaitForPodsReady,
    all_namespaces_but,
)
from muster.api.meta import LabelSelector, Struct
from muster.api.values.durations import MINUTE, SECOND

_LONGEST = 2**63 // 10**9  # seconds that a Go duration can hold
_Seconds: TypeAlias = Annotated[int, msgspec.Meta(ge=-_LONGEST, le=_LONGEST)]

_FIRST_TIMEOUT = 5 * MINUTE  # of Kueue KEP-349 and v1beta1
_TIMEOUT = 30 * MINUTE  # of v1beta2


class WrittenWait(Struct):
    """`waitForPodsReady` in all its spellings."""

    enable: Annotated[bool, OLD] = False
    timeout: Duration | None = None
    timeout_seconds: _Seconds | None = None
    block_admission: bool | None = None
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()
    recovery_timeout: Duration | None = None


class WrittenFairSharing(Struct):
    """`fairSharing`, which in v1beta1 says itself whether it is on."""

    enable: Annotated[bool, OLD] = False
    preemption_strategies: tuple[str, ...] = ()


class PodOptions(Struct):
    """Not looked at any more, as in Kueue: `managedJobsNamespaceSelector` took its place."""

    namespace_selector: LabelSelector | None = None
    pod_selector: LabelSelector | None = None


class WrittenIntegrations(Integrations):
    """`integrations`, with what v1beta1 had besides."""

    pod_options: Annotated[PodOptions | None, OLD] = None


class ClusterQueueVisibility(Struct):
    """Not looked at any more."""

    max_count: int = 0


class QueueVisibility(Struct):
    """Not looked at any more, as in Kueue: the visibility API took its place."""

    cluster_queues: ClusterQueueVisibility | None = None
    update_interval_seconds: int = 0


class Written(CommonSettings):
    """A whole file. Fields that only one version has are marked so."""

    api_version: str = ""
    kind: str = ""
    wait_for_pods_ready: WrittenWait | None = None
    fair_sharing: WrittenFairSharing | None = None
    integrations: WrittenIntegrations = WrittenIntegrations()
    queue_visibility: Annotated[QueueVisibility | None, OLD] = None


def meaning(written: Written, version: str) -> Configuration:
    """Return the settings that a file of that version makes."""
    same = {name: getattr(written, name) for name in CommonSettings.__struct_fields__}
    selector = written.managed_jobs_namespace_selector
    if selector is None:
        selector = all_namespaces_but("kube-system", written.namespace)
    integrations = {name: getattr(written.integrations, name) for name in Integrations.__struct_fields__}
    return Configuration(**same | {
        "managed_jobs_namespace_selector": selector,
        "wait_for_pods_ready": _wait_for_pods_ready(written, version),
        "fair_sharing": _fair_sharing(written.fair_sharing, version),
        "integrations": Integrations(**integrations),
    })  # fmt: skip


def _wait_for_pods_ready(written: Written, version: str) -> WaitForPodsReady | None:
    wait = written.wait_for_pods_ready or WrittenWait()
    if (version == V1BETA1 and not wait.enable) or written.features.enabled("DisableWaitForPodsReady"):
        return None
    kep = wait.timeout_seconds is not None
    if wait.timeout_seconds is not None:
        timeout = wait.timeout_seconds * SECOND
    elif version == V1BETA1:
        timeout = _FIRST_TIMEOUT if wait.timeout is None else wait.timeout
    else:
        timeout = wait.timeout or _TIMEOUT  # v1beta2 cannot tell 0 from nothing
    recovery = wait.recovery_timeout
    return WaitForPodsReady(
        timeout=timeout,
        clock="JobStart" if kep else "Admitted",
        block_admission=(kep or version == V1BETA1) if wait.block_admission is None else wait.block_admission,
        requeuing_strategy=wait.requeuing_strategy,
        recovery_timeout=timeout if recovery is None and not kep else recovery,
    )


def _fair_sharing(written: WrittenFairSharing | None, version: str) -> FairSharing | None:
    if written is None or (version == V1BETA1 and not written.enable):
        return None
    strategies = written.preemption_strategies
    if version == V1BETA1 and not strategies:
        strategies = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    return FairSharing(preemption_strategies=strategies)
