"""The fields of a file in either version, and their meaning as settings.

`complete_settings` takes a decoded file and gives the complete settings. Each version has its own defaults. The two
versions differ in two points:

- `waitForPodsReady` is off in v1beta1 unless `enable` is true. Then it lasts 5 minutes and blocks admission. In v1beta2
  it is always on, lasts 30 minutes and does not block admission.
- `fairSharing` is on in v1beta2 if it is present. In v1beta1 its field `enable` decides.

Kueue KEP-349 has `timeoutSeconds`, which counts from the start of the job. This field has the KEP's own defaults in
both versions: the engine blocks admission, and has no timeout for pods that stop being ready.
"""

from typing import Annotated, TypeAlias

import msgspec

from muster.api.config.types import (
    OLD,
    PREEMPTION_STRATEGIES,
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

_LONGEST = 2**63 // 10**9  # the most seconds that a Go duration can hold
_Seconds: TypeAlias = Annotated[int, msgspec.Meta(ge=-_LONGEST, le=_LONGEST)]

_FIRST_TIMEOUT = 5 * MINUTE  # the default of Kueue KEP-349 and v1beta1
_TIMEOUT = 30 * MINUTE  # the default of v1beta2


class WrittenWait(Struct):
    """The field `waitForPodsReady` in all spellings of both versions."""

    enable: Annotated[bool, OLD] = False
    timeout: Duration | None = None
    timeout_seconds: _Seconds | None = None
    block_admission: bool | None = None
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()
    recovery_timeout: Duration | None = None


class WrittenFairSharing(Struct):
    """The field `fairSharing`, which in v1beta1 has a field `enable`."""

    enable: Annotated[bool, OLD] = False
    preemption_strategies: tuple[str, ...] = ()


class PodOptions(Struct):
    """A field without effect, as in Kueue. `managedJobsNamespaceSelector` replaced it."""

    namespace_selector: LabelSelector | None = None
    pod_selector: LabelSelector | None = None


class WrittenIntegrations(Integrations):
    """The field `integrations`, with the additional fields of v1beta1."""

    pod_options: Annotated[PodOptions | None, OLD] = None


class ClusterQueueVisibility(Struct):
    """A field without effect."""

    max_count: int = 0


class QueueVisibility(Struct):
    """A field without effect, as in Kueue. The visibility API replaced it."""

    cluster_queues: ClusterQueueVisibility | None = None
    update_interval_seconds: int = 0


class ConfigurationFile(CommonSettings):
    """A whole file of either version. Fields that only one version has are marked so."""

    api_version: str = ""
    kind: str = ""
    wait_for_pods_ready: WrittenWait | None = None
    fair_sharing: WrittenFairSharing | None = None
    integrations: WrittenIntegrations = WrittenIntegrations()
    queue_visibility: Annotated[QueueVisibility | None, OLD] = None


def complete_settings(written: ConfigurationFile, version: str) -> Configuration:
    """Return the settings of a Configuration file with all defaults. version: the API version of the file."""
    same = {name: getattr(written, name) for name in CommonSettings.__struct_fields__}
    selector = written.managed_jobs_namespace_selector
    if selector is None:
        selector = all_namespaces_but("kube-system", written.namespace)
    integrations = {name: getattr(written.integrations, name) for name in Integrations.__struct_fields__}
    return Configuration(**same | {
        "managed_jobs_namespace_selector": selector,
        "wait_for_pods_ready": _wait_for_pods_ready(written, version),
        "fair_sharing": _convert_fair_sharing(written.fair_sharing, version),
        "integrations": Integrations(**integrations),
    })  # fmt: skip


def _wait_for_pods_ready(written: ConfigurationFile, version: str) -> WaitForPodsReady | None:
    wait = written.wait_for_pods_ready or WrittenWait()
    if (version == V1BETA1 and not wait.enable) or written.features.is_enabled("DisableWaitForPodsReady"):
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


def _convert_fair_sharing(written: WrittenFairSharing | None, version: str) -> FairSharing | None:
    if written is None or (version == V1BETA1 and not written.enable):
        return None
    strategies = written.preemption_strategies
    if version == V1BETA1 and not strategies:
        strategies = PREEMPTION_STRATEGIES
    return FairSharing(preemption_strategies=strategies)
