"""Make the requests of jobs for nodes: the shapes of their pods, and the gangs that they may preempt."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

from msgspec.structs import replace

from muster.api.core import Node, Pod
from muster.gang.shapes import Shape, shape_of
from muster.queueing.model import Assignment, FlavorSpec, PodSetAssignment
from muster.simulation.engine.job import SimulatedJob
from muster.simulation.engine.nodes.displacement import Precedence
from muster.simulation.engine.nodes.gangask import GangAsk, make_criteria
from muster.simulation.engine.nodes.pinning import Pins, index_hosts, pin
from muster.simulation.engine.templates import KnownTemplate

# The maximum number of cached shapes.
_MOST_SHAPES = 50_000


class AskMaker:
    """A maker of gangs' requests for nodes.

    flavors: the ResourceFlavors by name.
    least: the seconds for which every gang is protected from preemption after its start.
    """

    def __init__(self, nodes: Iterable[Node], flavors: Mapping[str, FlavorSpec], least: float) -> None:
        self._hosts = index_hosts((one.metadata.name, one.metadata.labels) for one in nodes)
        self._names = {name: host for host, name in self._hosts.items()}
        self._flavors = flavors
        self._least = least
        self._precedences: dict[Hashable, Precedence] = {}  # by the key of a template
        # By the key of a template, the index of a podset, its flavors, and the labels of a domain.
        self._shapes: dict[tuple[Hashable, int, tuple[str, ...], tuple[tuple[str, str], ...]], Shape] = {}

    def list_shapes_of_works(self) -> Iterable[tuple[int, Shape]]:
        """Yield the shape of the first pods of each source of work. Single jobs of a log may have other shapes."""
        for (work, podset, _, _), shape in self._shapes.items():
            if podset == 0 and isinstance(work, int):
                yield work, shape

    def count_shapes(self, job: SimulatedJob, assignment: Assignment | None) -> Mapping[Shape, int]:
        """Return how many pods of each shape a job has.

        Pods that are assigned to a topology domain select the domain's labels.
        """
        shapes: Counter[Shape] = Counter()
        for number, podset in enumerate(job.workload.podsets):
            given = assignment.podsets[number] if assignment is not None else None
            flavors = job.flavors[number] if given is None and job.flavors else _list_flavors(given)
            if given is None or given.places is None:
                shapes[self.find_shape(job, number, flavors)] += podset.count if given is None else given.count
                continue
            for values, count in given.places.domains:
                labels = tuple(zip(given.places.levels, values, strict=True))
                shapes[self.find_shape(job, number, flavors, labels)] += count
        return shapes

    def _pin(self, job: SimulatedJob, assignment: Assignment) -> Pins | None:
        shapes = [self.find_shape(job, number, _list_flavors(one)) for number, one in enumerate(assignment.podsets)]
        return pin(shapes, [one.places for one in assignment.podsets], self._hosts)

    def ask_for_all(self, job: SimulatedJob, assignment: Assignment | None, epoch: float) -> GangAsk:
        """Return a gang's request for nodes for all its pods.

        If admission chose nodes or topology domains, the request is limited to these.
        """
        has_places = assignment is not None and any(one.places is not None for one in assignment.podsets)
        pins = self._pin(job, assignment) if assignment is not None and has_places else None
        if pins is None:
            return self.make_ask(job, self.count_shapes(job, assignment), epoch, has_places=has_places)
        shapes = {shape: sum(count for _, count in nodes) for shape, nodes in pins.items()}
        return self.make_ask(job, shapes, epoch, pins=pins, has_places=has_places)

    def ask_for_rest(
        self, job: SimulatedJob, lacking: Mapping[Shape, int], guests: Mapping[tuple[Shape, str], int], epoch: float
    ) -> GangAsk:
        """Return a broken gang's request for nodes for its missing pods.

        guests: the number of pods of each shape that it has on each node.
        """
        given = job.assignment
        has_places = given is not None and any(one.places is not None for one in given.podsets)
        pins = self._pin(job, given) if given is not None and has_places else None
        if pins is not None:
            rest = {
                shape: tuple(
                    (node, left) for node, count in nodes if (left := count - guests.get((shape, node), 0)) > 0
                )
                for shape, nodes in pins.items()
            }
            pins = {shape: nodes for shape, nodes in rest.items() if nodes}
        running = tuple(sorted(node for (_, node), count in guests.items() for _ in range(count)))
        return self.make_ask(job, lacking, epoch, broken=True, pins=pins, has_places=has_places, running=running)

    def ask_for_more(self, job: SimulatedJob, pods: int, epoch: float) -> GangAsk:
        """Return a running elastic gang's request for nodes for `pods` additional pods.

        Its pods must have one shape.
        """
        (shape,) = self.count_shapes(job, job.assignment)
        return self.make_ask(job, {shape: pods}, epoch)

    def find_host(self, node: str) -> str:
        """Return the host name label of a node, by which topologies know it; the node's name if it has no label."""
        return self._names.get(node, node)

    def make_ask(
        self,
        job: SimulatedJob,
        shapes: Mapping[Shape, int],
        epoch: float,
        *,
        broken: bool = False,
        pins: Pins | None = None,
        has_places: bool = False,
        running: tuple[str, ...] = (),
    ) -> GangAsk:
        """Return a gang's request for nodes for some pods.

        shapes: the number of pods by shape.
        epoch: the current time, in seconds since the epoch.
        broken: whether other pods of the gang have nodes.
        pins: the nodes that admission chose for the pods; None if it chose none.
        has_places: whether admission chose nodes or domains.
        running: the node of each running pod of the gang.
        """
        tenant = job.workload.queue or job.workload.namespace
        # The job makes its pods once it is admitted; the scheduler goes by the age of pods.
        priority, precedence = job.known.template.pod_priority, self._find_precedence(job.known)
        if job.submission.priority is not None and not job.workload.queue:  # no queue uses the priority instead
            priority = job.submission.priority
            precedence = precedence.with_priority(priority)
        criteria = make_criteria(priority, tenant, epoch, broken=broken)
        key, subject = job.workload.key, job.subject
        near = job.known.template.near
        return GangAsk.of(
            key,
            criteria,
            shapes,
            job.end,
            precedence,
            pins,
            has_places=has_places,
            subject=subject,
            near=near,
            running=running if near is not None else (),
            is_elastic=job.bounds is not None,
        )

    def _find_precedence(self, known: KnownTemplate) -> Precedence:
        if known.key not in self._precedences:
            self._precedences[known.key] = Precedence.of(known.template.pods, self._least)
        return self._precedences[known.key]

    def find_shape(
        self, job: SimulatedJob, number: int, flavors: tuple[str, ...], domain: tuple[tuple[str, str], ...] = ()
    ) -> Shape:
        """Return the shape of a podset's pods, with the labels and tolerations of its assigned flavors.

        number: the index of the podset.
        domain: the labels of the topology domain for its pods.
        """
        key = job.known.key, number, flavors, domain
        known = self._shapes.get(key)
        if known is None:
            workload = job.known.template.workload
            template = workload.spec.pod_sets[number].template
            given = [self._flavors[name] for name in flavors]
            labels = {key: value for flavor in given for key, value in flavor.labels.items()}
            spec = replace(
                template.spec,
                node_selector=template.spec.node_selector | labels | dict(domain),
                tolerations=(*template.spec.tolerations, *(one for flavor in given for one in flavor.tolerations)),
            )
            # Affinity selects pods of the same namespace.
            meta = replace(template.metadata, namespace=workload.metadata.namespace)
            known = shape_of(Pod(metadata=meta, spec=spec))
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            self._shapes[key] = known
        return known


def _list_flavors(assignment: PodSetAssignment | None) -> tuple[str, ...]:
    """Return the sorted names of the flavors that are assigned to a podset; empty without an assignment."""
    return () if assignment is None else tuple(sorted({choice.flavor for choice in assignment.flavors.values()}))
