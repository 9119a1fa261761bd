"""Reads what there is to know of a cluster on which Kueue's manager has worked."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from muster.api.batch import JOB
from muster.api.config import Configuration
from muster.api.core import POD
from muster.api.kueue import ADMISSION_CHECK, CLUSTER_QUEUE, GROUP, VERSION, WORKLOAD
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.meta import ObjectMeta, Struct
from muster.api.server.admissionregistration import MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.controllers.integrations.table import INTEGRATIONS, chosen, outside
from muster.insight.reader.queues import list_or_none
from muster.insight.takeover import GroupKind, Seen
from muster.jobs.job.conditions import finish
from muster.operator.holders import other_manager
from muster.runtime.client import Client
from muster.runtime.clock import Clock


class _Spec(Struct):
    group: str = ""


class _Status(Struct):
    stored_versions: tuple[str, ...] = ()


class Definition(Struct):
    """Of a definition, what counts here: schemas are large."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_DEFINITION: Final = CUSTOM_RESOURCE_DEFINITION.seen_as(Definition)


async def seen(client: Client, configuration: Configuration, clock: Clock, said: Callable[[str], None]) -> Seen:
    """All of it. said: told what it waits for. Raises `ApiError` where Workloads or ClusterQueues may not be listed."""
    jobs = (await client.list(JOB, labels=QUEUE_NAME_LABEL)).items
    asked: list[Any] = [
        *(await list_or_none(client, MUTATING_WEBHOOK_CONFIGURATION) or ()),
        *(await list_or_none(client, VALIDATING_WEBHOOK_CONFIGURATION) or ()),
    ]
    definitions = await list_or_none(client, _DEFINITION) or ()
    return Seen(
        workloads=(await client.list(WORKLOAD)).items,
        queues=(await client.list(CLUSTER_QUEUE)).items,
        checks=(await client.list(ADMISSION_CHECK)).items,
        jobs=[job for job in jobs if not job.spec.suspend and finish(job) is None],
        old=[one for one in definitions if one.spec.group == GROUP and set(one.status.stored_versions) - {VERSION}],
        webhooks=sorted({one.metadata.name for one in asked if _is_kueues(one)}),
        manager=await other_manager(client, clock, configuration, said),
    )


def kinds(configuration: Configuration) -> tuple[set[GroupKind], set[GroupKind]]:
    """The kinds of jobs that the settings name, and those that they could."""
    named = {(one.kind.group, one.kind.kind) for one in chosen(INTEGRATIONS, configuration)}
    named |= {(kind.group, kind.kind) for kind in outside(configuration)}
    pods = {(POD.group, POD.kind)}
    known = {(one.kind.group, one.kind.kind) for one in INTEGRATIONS} | pods
    return named | (pods if "pod" in configuration.integrations.frameworks else set()), known


def _is_kueues(configuration: Any) -> bool:
    """Whether it is asked about Kueue's kinds, and not by Muster's own configuration."""
    groups: Iterable[str] = (
        group for webhook in configuration.webhooks for rule in webhook.rules for group in rule.api_groups
    )
    return GROUP in groups and not configuration.metadata.name.startswith("muster-")
