"""Read the state of a cluster on which Kueue's manager has run, for the report on a takeover."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from muster.api.batch import JOB
from muster.api.config import Configuration
from muster.api.config.frameworks import FRAMEWORKS
from muster.api.core import POD
from muster.api.kueue import CLUSTER_QUEUE, GROUP, VERSION, WORKLOAD
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.managed.pods import is_held, waits_for_place
from muster.api.meta import ObjectMeta, Struct
from muster.api.server.admissionregistration import MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.controllers.integrations.serving.kinds import SERVING, select_serving
from muster.controllers.integrations.table import INTEGRATIONS, frameworks_without_effect, list_enabled, list_external
from muster.insight.reader.listing.access import list_or_none
from muster.insight.takeover import GroupKind, Survey
from muster.jobs.job.conditions import finish
from muster.operator.holders import other_manager
from muster.runtime.client import Client
from muster.runtime.clock import Clock


class _Spec(Struct):
    group: str = ""


class _Status(Struct):
    stored_versions: tuple[str, ...] = ()


class Definition(Struct):
    """A CustomResourceDefinition as this module reads it: without its schemas, which are large."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_DEFINITION: Final = CUSTOM_RESOURCE_DEFINITION.seen_as(Definition)


async def survey_cluster(
    client: Client, configuration: Configuration, clock: Clock, report: Callable[[str], None]
) -> Survey:
    """Return all facts that a takeover from Kueue depends on. report: called with the reason of a wait.

    Raises `ApiError` if Workloads or ClusterQueues may not be listed.
    """
    jobs = (await client.list(JOB, labels=QUEUE_NAME_LABEL)).items
    configurations: list[Any] = [
        *(await list_or_none(client, MUTATING_WEBHOOK_CONFIGURATION) or ()),
        *(await list_or_none(client, VALIDATING_WEBHOOK_CONFIGURATION) or ()),
    ]
    definitions = await list_or_none(client, _DEFINITION) or ()
    return Survey(
        workloads=(await client.list(WORKLOAD)).items,
        queues=(await client.list(CLUSTER_QUEUE)).items,
        pods=[
            pod
            for pod in await list_or_none(client, POD, fields="spec.nodeName=") or ()
            if is_held(pod) or waits_for_place(pod)
        ],
        jobs=[job for job in jobs if not job.spec.suspend and finish(job) is None],
        old=[one for one in definitions if one.spec.group == GROUP and set(one.status.stored_versions) - {VERSION}],
        webhooks=sorted({one.metadata.name for one in configurations if is_kueues(one)}),
        manager=await other_manager(client, clock, configuration, report),
        idle=frameworks_without_effect(configuration),
        variants=configuration.features.is_enabled("ConcurrentAdmission"),
    )


def sort_kinds(configuration: Configuration) -> tuple[set[GroupKind], set[GroupKind], set[GroupKind]]:
    """Return the job kinds that these settings enable, the kinds that Muster supports, and all kinds that they name."""
    acts = {(one.kind.group, one.kind.kind) for one in list_enabled(INTEGRATIONS, configuration)}
    acts |= {(kind.group, kind.kind) for kind in list_external(configuration)}
    acts |= {(one.kind.group, one.kind.kind) for one in select_serving(configuration)}
    pods = {(POD.group, POD.kind)}
    ours = [*(one.kind for one in INTEGRATIONS), *(one.kind for one in SERVING)]
    served = {(kind.group, kind.kind) for kind in ours} | pods
    names = configuration.integrations.frameworks
    named = {(kind.group, kind.kind) for name, kind in FRAMEWORKS.items() if name in names}
    return acts | (pods if "pod" in names else set()), served, named


def is_kueues(configuration: Any) -> bool:
    """Return whether a webhook configuration calls Kueue's webhooks, and not Muster's."""
    groups: Iterable[str] = (
        group for webhook in configuration.webhooks for rule in webhook.rules for group in rule.api_groups
    )
    return GROUP in groups and not configuration.metadata.name.startswith("muster-")
