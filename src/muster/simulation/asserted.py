"""Read the assertions about a scenario, and check the names in them against its cluster. Pure."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from muster.api.kueue import ClusterQueue
from muster.queueing.convert import convert_quotas
from muster.simulation.engine.site import Site
from muster.simulation.engine.world import WorkerSite
from muster.simulation.outcome.assertions import (
    Assertion,
    AssertionResult,
    AssertionSyntaxError,
    UnknownNameError,
    choose_resource,
    judge,
    parse_assertion,
    require_known,
)
from muster.simulation.outcome.ledgers import QuotaKey
from muster.simulation.outcome.record import JobOutcome, SimulationRecord
from muster.simulation.outcome.usechanges import RecordedUse
from muster.simulation.scenario.arrivals import list_priorities, list_users
from muster.simulation.scenario.reading import Reading
from muster.simulation.scenario.source import ScenarioError, list_names

# Every pod takes one of these, so they are no resource that jobs ask for.
_PODS = "pods"


class Asserted(Struct, frozen=True):
    """The assertions about a variant.

    own: the assertions to evaluate for this variant.
    lacking: the errors about names that this variant lacks, by the text of the assertion.
    refusals: by text, the function that makes an error about an assertion.
    """

    own: Sequence[Assertion]
    lacking: Mapping[str, ScenarioError]
    refusals: Mapping[str, Callable[[str], ScenarioError]] = {}


def read_assertions(
    reading: Reading,
    more: Sequence[str],
    site: Site,
    workers: Sequence[WorkerSite],
    record: SimulationRecord,
    variant: str,
    variants: Sequence[str],
) -> Asserted:
    """Parse the assertions of a scenario and of the command; return the assertions about a variant.

    more: the assertions of the command.
    record: the record at the start of the simulation, with the jobs of the state.
    variants: the names of the variants of all simulations to compare, of which points of a sweep have the same; empty
    for a single simulation.

    Raises:
        ScenarioError: an assertion is invalid, or names something that the only simulation lacks.
    """
    scenario = reading.scenario
    known = {"variant": variants or [scenario.metadata.name, *(one.name for one in scenario.spec.variants)]}
    texts: list[tuple[str, Callable[[str], ScenarioError]]] = [
        *(
            (text, partial(reading.source.error, f"spec.assert[{n}]"))
            for n, text in enumerate(scenario.spec.assertions)
        ),
        *((text, _refuse_option) for text in more),
    ]
    own: list[Assertion] = []
    lacking: dict[str, ScenarioError] = {}
    for text, refuse in texts:
        try:
            assertion = parse_assertion(text, known)
        except AssertionSyntaxError as error:
            raise refuse(str(error)) from None
        if assertion.variant not in ("", variant):
            continue
        try:
            assertion = _check_names(assertion, reading, site, workers, record)
        except UnknownNameError as error:
            lacking[text] = refuse(str(error))
            if len(variants) < 2:  # of several, another may have the name
                raise lacking[text] from None
        except AssertionSyntaxError as error:
            raise refuse(str(error)) from None
        own.append(assertion)
    return Asserted(own, lacking, dict(texts))


def require_one_resource(asserted: Mapping[str, Asserted]) -> None:
    """Raise `ScenarioError` if an assertion that names no resource is about different resources in several variants.

    asserted: the assertions, by variant.
    """
    measured: dict[str, tuple[str, str]] = {}
    for variant, one in asserted.items():
        for text, resource in ((each.text, each.resource) for each in one.own if each.resource):
            other, before = measured.setdefault(text, (variant, resource))
            if resource != before:
                why = f"{text} measures {before} in {other} and {resource} in {variant}: add resource={before}"
                raise one.refusals[text](why)


def judge_all(asserted: Asserted, jobs: Sequence[JobOutcome], use: RecordedUse) -> list[AssertionResult]:
    """Return the results of the assertions about a variant.

    An assertion with a name that the variant lacks fails, except that a count is 0 and is compared with the bound.
    """
    return [
        AssertionResult(one, None, holds=False)
        if one.text in asserted.lacking and not one.is_count
        else judge(one, jobs, use)
        for one in asserted.own
    ]


def _refuse_option(why: str) -> ScenarioError:
    return ScenarioError(f"--assert: {why}")


def _check_names(
    assertion: Assertion, reading: Reading, site: Site, workers: Sequence[WorkerSite], record: SimulationRecord
) -> Assertion:
    """Check the names in an assertion; return the assertion, with its resource if it is about use.

    Raises:
        UnknownNameError: the cluster lacks one of the names.
        AssertionSyntaxError: the assertion must name a resource.
    """
    queues = [one.metadata.name for one in site.cluster_queues]
    if not assertion.is_of_use:
        filters = dict(assertion.filters)
        require_known(assertion.filters, {"queue": queues, "work": record.works})
        if "user" in filters:
            require_known(assertion.filters, {"user": sorted({*list_users(reading), *record.users} - {""})})
        if "priority" in filters:
            _require_priority(int(filters["priority"]), _list_priorities(reading, site, record))
        return assertion
    quotas = list(_list_quotas(site, workers))
    if not assertion.is_of_nodes:  # jobs are in queues of this cluster, but worker clusters have quotas
        queues += sorted({key[0] for key in quotas} - {*queues})
    require_known(assertion.filters, {"queue": queues})
    return choose_resource(assertion, quotas, _list_node_resources([site, *(one.site for one in workers)]))


def _list_priorities(reading: Reading, site: Site, record: SimulationRecord) -> list[range]:
    """Return the priorities that jobs may have, as ranges in ascending order; a single priority is a range of one."""
    usual = {name: one.workload.spec.priority or 0 for name, one in site.templates.items()}
    of_state = {range(one, one + 1) for one in record.list_priorities()}
    return sorted(list_priorities(reading, usual) | of_state, key=lambda each: (each.start, each.stop))


def _require_priority(priority: int, known: Sequence[range]) -> None:
    """Raise `UnknownNameError` if no job may have this priority."""
    if not any(priority in each for each in known):
        names = [str(each.start) if len(each) == 1 else f"{each.start} to {each.stop - 1}" for each in known]
        others = f": the priorities are {list_names(names)}" if names else ""
        raise UnknownNameError(f"no job has the priority {priority}{others}")


def _list_quotas(site: Site, workers: Sequence[WorkerSite]) -> Iterator[QuotaKey]:
    """Yield all quotas that ClusterQueues have at any time; a queue of a worker cluster is named `CLUSTER/QUEUE`."""
    scopes = [("", site), *((f"{name}/", worker.site) for worker in workers for name in worker.reading.names)]
    for scope, one in scopes:
        changed = (each.definition for each in one.redefinitions)
        queues = [*one.cluster_queues, *(each for each in changed if isinstance(each, ClusterQueue))]
        for queue in queues:
            for part in convert_quotas(queue.spec.resource_groups):
                yield scope + queue.metadata.name, *part


def _list_node_resources(sites: Sequence[Site]) -> Collection[str]:
    return {
        resource for site in sites for node in (*site.nodes, *site.later_nodes) for resource in node.status.allocatable
    } - {_PODS}
