"""Find objects that only Muster processes, as `muster manifests --uninstall` also does."""

from collections.abc import Callable

from muster.api.core import POD
from muster.api.jobset import JOB_SET, JobSet
from muster.api.jobset.names import CONTROLLER_NAME
from muster.api.pods import is_finished
from muster.controllers.jobset.upstream import LEASE_NAME
from muster.insight.reader.listing.access import list_or_none
from muster.install.options import Options
from muster.operator.holders import find_renewer
from muster.operator.precedence import beside_others
from muster.runtime.client import Client
from muster.runtime.realclock import Clock


async def find_dependents(client: Client, clock: Clock, options: Options, report: Callable[[str], None]) -> list[str]:
    """Return titles of the objects that no program would process without Muster.

    These are the JobSets that no other controller runs, and the pods that wait for Muster's scheduler.

    report: called with the reason for each wait.

    Raises `ApiError`.
    """
    settings = beside_others(options.settings)
    jobsets = [one for one in await list_or_none(client, JOB_SET) or () if _is_run_here(one)]
    if jobsets and await find_renewer(client, clock, settings.muster.job_set_namespace, LEASE_NAME, report):
        jobsets = []
    titles = [f"jobset {one.metadata.namespace}/{one.metadata.name}" for one in jobsets]
    for scheduler in settings.muster.scheduling.scheduler_names:
        pods = (await client.list(POD, fields=f"spec.schedulerName={scheduler},spec.nodeName=")).items
        titles += [f"pod {pod.metadata.namespace}/{pod.metadata.name}" for pod in pods if not is_finished(pod)]
    return titles


def _is_run_here(jobset: JobSet) -> bool:
    return not jobset.status.terminal_state and jobset.spec.managed_by in (None, "", CONTROLLER_NAME)
