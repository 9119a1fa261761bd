"""Gives the groups that ended with the whole cluster a new epoch, before anything of theirs is made again.

It is done while nothing else runs: no controller that makes pods in place of those that ended, and no node that would
let them begin on the word that was for the others. The word goes first. So wherever this is cut off, the next start of
the cluster does the rest, and finds no pod that has begun since.
"""

import logging
from collections import defaultdict

from msgspec.structs import replace

from muster.api.core import CONFIG_MAP, POD, Pod
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.status import ApiError
from muster.controllers.jobset.owned import is_of
from muster.jobs.jobset.start.barrier import STARTED, config_map_name
from muster.jobs.jobset.start.group import is_stopped, is_used, renewed
from muster.jobs.jobset.terms import finish, managed_by
from muster.runtime.client import Client
from muster.runtime.objects import key_of, merge_patch

log = logging.getLogger(__name__)


async def renew_stopped(client: Client, manages: str = names.CONTROLLER_NAME) -> None:
    """Look at all groups once. What a user's webhook or policy refuses is tried again at another start."""
    jobsets = [jobset for jobset in (await client.list(JOB_SET)).items if _may_have_stopped(jobset, manages)]
    if not jobsets:
        return
    pods: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in (await client.list(POD, labels=names.JOBSET_UID)).items:
        pods[pod.metadata.namespace, pod.metadata.labels[names.JOBSET_UID]].append(pod)
    for jobset in jobsets:
        if is_stopped(jobset, pods[jobset.metadata.namespace, jobset.metadata.uid]):
            try:
                await _renew(client, jobset)
            except ApiError as error:
                log.warning("the group of JobSet %s goes on in its last start: %s", key_of(jobset), error)


def _may_have_stopped(jobset: JobSet, manages: str) -> bool:
    ends = jobset.metadata.deletion_timestamp is not None or finish(jobset) is not None
    return is_used(jobset) and not ends and managed_by(jobset) == manages


async def _renew(client: Client, jobset: JobSet) -> None:
    meta = jobset.metadata
    known = await client.find(CONFIG_MAP, config_map_name(meta.name), meta.namespace)
    if known is not None and is_of(known, jobset) and STARTED in known.data:
        await client.patch_object(CONFIG_MAP, known, {"data": {STARTED: None}})
    status = replace(jobset.status, group_scheduling=renewed(jobset))
    patch = {"status": merge_patch(status, jobset.status)}
    await client.patch_object(JOB_SET, jobset, patch, subresource="status")
