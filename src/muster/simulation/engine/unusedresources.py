"""Find misspelt resources of nodes: resources with a name that only resembles one that jobs or quotas use. Pure."""

import re
from collections.abc import Collection, Iterator

from muster.api.pods import pod_requests
from muster.api.validation.resources import STANDARD_RESOURCES
from muster.insight.nearest import find_nearest
from muster.simulation.engine.site import Site
from muster.simulation.scenario.logs.opening import find_columns, says_requests
from muster.simulation.scenario.model import NodePool
from muster.simulation.scenario.reading import Reading

_NUMBER = re.compile(r"\d+")


def describe_unused_resources(reading: Reading, site: Site) -> Iterator[str]:
    """Yield a sentence for each resource of a pool that is probably misspelt, with the intended name.

    Nodes of a state and of manifests are not checked, because kubelets report resources that no job needs.
    """
    used = set(_list_used(reading, site))
    for number, pool in enumerate(reading.scenario.spec.nodes):
        names = set(_list_resources(pool))
        for name in sorted(names - used - STANDARD_RESOURCES):
            if meant := _find_meant(name, used - names):
                where = reading.source.locate(f"spec.nodes[{number}]")
                yield f"{where}: no job or quota names {name}, but {meant}: is one of the two misspelt?"


def _list_resources(pool: NodePool) -> Collection[str]:
    if pool.file:
        return list(pool.columns.allocatable or ())
    status = pool.template.get("status") or {}
    return list(status.get("allocatable") or status.get("capacity") or ())


def _list_used(reading: Reading, site: Site) -> Iterator[str]:
    """Yield the resources that jobs request, and the resources of quotas, including changed quotas."""
    changed = [one.definition for one in site.redefinitions]
    for definition in (*site.cluster_queues, *site.cohorts, *changed):
        for group in getattr(definition.spec, "resource_groups", ()):
            yield from group.covered_resources
    for template in site.templates.values():
        for pod in template.pods:
            yield from pod_requests(pod.spec)
    for workload in reading.state.workloads if reading.state is not None else ():
        for podset in workload.spec.pod_sets:
            yield from pod_requests(podset.template.spec)
    for work in reading.scenario.spec.work:
        if work.trace is None or not says_requests(work.trace):
            continue
        if (columns := find_columns(work.trace)) is not None:
            yield from columns.requests or ()
        else:
            roles = (role for job in reading.logs[work.name] for role in job.roles)
            yield from {name for role in roles for name, _ in role.requests or ()}


def _find_meant(name: str, known: Collection[str]) -> str:
    """Return a similar name of the same domain, or the same name with another domain; "" if there is none."""
    domain, _, own = name.rpartition("/")
    # Sizes in names tell resources apart: a pool with `mig-1g.5gb` may stand beside one with `mig-1g.10gb`.
    split = [(one.rpartition("/"), one) for one in known if _NUMBER.findall(one) == _NUMBER.findall(name)]
    siblings = {last: one for (first, _, last), one in split if first == domain}
    alike = {last: one for (_, _, last), one in split if not domain}
    return siblings.get(find_nearest(own, siblings)) or alike.get(own, "")
