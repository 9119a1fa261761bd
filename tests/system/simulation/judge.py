"""Play a scenario by both engines, and compare what they decided, when and in which order.

The use of quota in worker clusters is not compared: a cluster gives clones quota, and takes it back a moment later. It
only tells whether the jobs have other homes.
"""

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from itertools import chain, pairwise, zip_longest
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace
from tests.system.plane import settings

from muster.api.config import Configuration
from muster.api.config.types import ALL_AT_ONCE, IncrementalDispatcher
from muster.api.values import durations
from muster.simulation.engine.site import build_site
from muster.simulation.engine.world import WorkerSite, World
from muster.simulation.full.engine import FullEngine
from muster.simulation.outcome.record import SimulationRecord
from muster.simulation.scenario.changes import list_times
from muster.simulation.scenario.draws import parse_seconds
from muster.simulation.scenario.model import Work
from muster.simulation.scenario.reading import Reading, read_scenario
from muster.simulation.scenario.workers import list_names, read_workers

# Causes that are closer than this, in seconds, may be one moment to the fast engine and two to a cluster.
APART_SECONDS = 8.0
# Every decision takes a cluster some writes of 10 ms, which add up while jobs wait for each other.
LATE_SECONDS = 4.0
# What follows a cause comes within this time.
MOMENT_SECONDS = 2.0

# What an eviction may lead to in another order.
LOOSE = ("admit", "locate")

# The cluster gives up on pods that are not ready after half an hour, and takes back the quota of a pod before that of
# the other pods which end with it. The fast engine does neither. A cluster samples the past use of each LocalQueue from
# when it came; the fast engine samples them all at once. So no sample is taken here, and past use grows by admissions.
CONFIGURATION = replace(
    settings("""
featureGates: {ReclaimablePods: false}
admissionFairSharing: {usageHalfLifeTime: 168h, usageSamplingInterval: 10000h}
"""),
    wait_for_pods_ready=None,
)


def configure(dispatcher: str) -> Configuration:
    """Return the settings of a scenario, whose manager dispatches so, and asks one more cluster in each round."""
    rounds, garbage = IncrementalDispatcher(step_size=1), 10 * durations.MINUTE
    multi = replace(
        CONFIGURATION.multi_kueue,
        dispatcher_name=dispatcher,
        incremental_dispatcher_config=rounds,
        gc_interval=garbage,
    )
    return replace(CONFIGURATION, multi_kueue=multi)


class Journal(SimulationRecord):
    """A record that keeps the order of what is recorded: (time, what, whose or of what)."""

    def __init__(self, works: Any) -> None:
        super().__init__(works)
        self.events: list[tuple[float, str, Any]] = []
        self.queue_of: dict[str, str] = {}
        self.priorities: dict[str, int] = {}
        self.demands: dict[str, Any] = {}

    def submit(self, name, work, queue, pods, priority, at, run_time, user=""):
        self.events.append((at, "submit", name))
        self.queue_of[name] = queue
        self.priorities[name] = priority
        return super().submit(name, work, queue, pods, priority, at, run_time, user)

    def start(self, job, at, demand=(), nodes=None, pods=None, *, is_late=False):
        self.events.append((at, "start", self.names[job]))
        self.demands[self.names[job]] = demand
        super().start(job, at, demand, nodes, pods, is_late=is_late)

    def end(self, job, at, *, over_limit=False):
        self.events.append((at, "end", self.names[job]))
        if over_limit:
            self.events.append((at, "over limit", self.names[job]))
        super().end(job, at, over_limit=over_limit)

    def evict(self, job, ran):
        self.events.append((self.now, "evict", self.names[job]))
        super().evict(job, ran)

    def interrupt(self, job, lost):
        self.events.append((self.now, "interrupt", self.names[job]))
        super().interrupt(job, lost)

    def change_node(self, node, state):
        self.events.append((self.now, "node", node))
        super().change_node(node, state)

    def locate(self, job, cluster):
        self.events.append((self.now, "locate", f"{self.names[job]} in {cluster}"))
        super().locate(job, cluster)

    def change(self, at, queue, flavor, resource, amount):
        what = "there" if "/" in queue else "use"
        self.events.append((at, what, (queue, flavor, resource, amount)))
        super().change(at, queue, flavor, resource, amount)


def play(file: str, engine: Any, configuration: Configuration) -> tuple[Journal, list[str]]:
    """Play a scenario; return the journal, and the names of the jobs that wait at the end."""
    reading = read_scenario(file)
    workers = [WorkerSite(one, build_site(one.reading, configuration)) for one in read_workers(reading)]
    played = engine(reading, build_site(reading, configuration), configuration, workers)
    played.record = Journal(played.record.works)
    if isinstance(played, World):
        for one in played.engines:
            one.record = played.record
    played.run()
    return played.record, sorted(waiting.name for waiting in played.list_waiting())


def is_clear(journal: Journal) -> bool:
    """Return whether no two moments of a journal are so close that a cluster might see them in another order.

    A cluster learns of two ends, or of an end and a submission, one after the other, and decides in between.
    """
    nodes = {name for _, what, name in journal.events if what == "node"}
    causes = sorted({(at, name) for at, what, name in journal.events if what in ("submit", "end", "node")})
    return all(
        later[0] - earlier[0] >= APART_SECONDS or (later[0] == earlier[0] and {earlier[1], later[1]} <= nodes)
        for earlier, later in pairwise(causes)
    )


class Moment(Struct):
    """What happens at one time.

    order: by kind, whom it happens to, in order. Nodes and what runs there have the order of their names, and so have
    evicted jobs, because a cluster evicts several victims side by side.
    victims: the jobs that are evicted before another job gets quota.
    runs: whether a job runs at the end that starts or stops here.
    brief: the jobs that get quota here and are evicted. A cluster may evict them before their pods start, or may start
    the pods of others that it evicts.
    use: by how much the use of quota changes in all. there: the same in worker clusters.
    """

    at: float
    order: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    victims: set[str] = field(default_factory=set)
    runs: dict[str, bool] = field(default_factory=dict)
    brief: set[str] = field(default_factory=set)
    use: Counter[Any] = field(default_factory=Counter)
    there: Counter[Any] = field(default_factory=Counter)

    def is_as(self, other: "Moment") -> bool:
        """Return whether another moment has the same decisions at the same time."""
        # `starts_as` and `locates_as` compare what starts, and where.
        orders = [{what: names for what, names in one.order.items() if what != "locate"} for one in (self, other)]
        return orders[0] == orders[1] and self.starts_as(other) and self.uses_as(other)

    def follows_as(self, other: "Moment", *, loose: bool) -> bool:
        """Return whether another moment has the same evictions and admissions, if other jobs may start by them.

        A cluster frees the quota and the nodes of evicted jobs one after the other, and decides in between. loose: that
        may be so without evictions, too.
        """
        both = [
            {what: names for what, names in one.order.items() if what not in (*LOOSE, "evict")} for one in (self, other)
        ]
        brief = self.brief | other.brief
        evictions = [[name for name in one.order.get("evict", ()) if name not in brief] for one in (self, other)]
        admissions = [sorted(use for row in one.order.get("admit", ()) for use in row) for one in (self, other)]
        # A job that got freed quota before the evicted job was back in its queue is evicted again, for that job.
        if len(evictions[0]) != len(evictions[1]):
            evictions, admissions = [list(set(one)) for one in evictions], [list(set(one)) for one in admissions]
        # Another job that got quota and lost it here changes nothing of the use, which is compared as a whole.
        if len(self.order.get("evict", ())) != len(other.order.get("evict", ())) and brief:
            admissions = [[], []]
        same = sorted(evictions[0]) == sorted(evictions[1])
        evicts = loose or brief or "evict" in self.order or "interrupt" in self.order
        same = same and sorted(admissions[0]) == sorted(admissions[1])
        return bool(evicts) and both[0] == both[1] and same and self.uses_as(other)

    def evicts_as(self, other: "Moment") -> bool:
        """Return whether another moment has the same causes and evicts the same jobs, of which there are several.

        The jobs count that are evicted in all, or before another job gets quota: this job may get other quota if it
        comes free part by part, and evict other jobs.
        """
        both = [
            {what: names for what, names in one.order.items() if what not in (*LOOSE, "evict")} for one in (self, other)
        ]
        evicted = [set(one.order.get("evict", ())) for one in (self, other)]
        same = any(one == two and len(one) > 1 for one, two in (evicted, (self.victims, other.victims)))
        return both[0] == both[1] and same and abs(self.at - other.at) <= LATE_SECONDS

    def is_caused_as(self, other: "Moment") -> bool:
        """Return whether another moment has the same causes and evictions at the same time."""
        both = [{what: names for what, names in one.order.items() if what not in LOOSE} for one in (self, other)]
        return both[0] == both[1] and abs(self.at - other.at) <= LATE_SECONDS

    def sum_grants(self, queues: Collection[str]) -> Counter[str]:
        """Return how much CPU each of these queues gave to jobs, also to those that lost it here."""
        grants = Counter[str]()
        for queue, _, _, amount in chain.from_iterable(self.order.get("admit", ())):
            grants[queue] += amount if queue in queues else 0
        return +grants

    def starts_as(self, other: "Moment") -> bool:
        """Return whether the same jobs start in another moment, and go on."""
        started = [{name for name, runs in one.runs.items() if runs} for one in (self, other)]
        return started[0] == started[1]

    def list_other_starts(self, other: "Moment") -> tuple[set[str], set[str]]:
        """Return the jobs that start in one of two moments only, by moment; none if the decisions differ."""
        orders = [{what: names for what, names in one.order.items() if what != "locate"} for one in (self, other)]
        started = [{name for name, runs in one.runs.items() if runs} for one in (self, other)]
        same = orders[0] == orders[1] and self.uses_as(other)
        return (started[0] - started[1], started[1] - started[0]) if same else (set(), set())

    def locates_as(self, other: "Moment") -> bool:
        """Return whether the jobs that start go to the same clusters."""
        return self.order.get("locate") == other.order.get("locate")

    def has_homes_as(self, other: "Moment") -> bool:
        """Return whether jobs get quota for good in the same worker clusters, also jobs that do not start."""
        return +self.there == +other.there and -self.there == -other.there

    def breaks_others_than(self, other: "Moment") -> bool:
        """Return whether other jobs lose nodes in another moment, in which the same nodes change."""
        same = self.order.get("node") == other.order.get("node")
        return same and self.order.get("interrupt") != other.order.get("interrupt")

    def uses_as(self, other: "Moment") -> bool:
        """Return whether the use of quota changes by as much in all in another moment."""
        uses = (sorted((key, amount) for key, amount in one.use.items() if amount) for one in (self, other))
        return abs(self.at - other.at) <= LATE_SECONDS and len(set(map(repr, uses))) == 1


def list_moments(journal: Journal) -> list[Moment]:
    """Return the moments of a journal."""
    moments: list[Moment] = []
    evicted: set[str] = set()  # and not started since
    for at, what, of in journal.events:
        if not moments or at > moments[-1].at + MOMENT_SECONDS:
            moments.append(Moment(at))
        if what in ("use", "there"):
            *key, amount = of
            uses = moments[-1].use if what == "use" else moments[-1].there
            uses[tuple(key)] += amount
            if what == "use" and amount > 0 and key[-1] == "cpu":
                _note_admission(moments[-1].order["admit"], of)
        elif what == "start":
            moments[-1].runs[of] = True
        elif what in ("evict", "locate", "interrupt", "node"):
            insort(moments[-1].order[what], of)
        else:
            moments[-1].order[what].append(of)
        if what in ("evict", "interrupt", "end"):
            # A job that was evicted before and has not started since got quota in this moment only.
            if what == "evict" and (moments[-1].runs.get(of) or of in evicted):
                moments[-1].brief.add(of)
            moments[-1].runs[of] = False
        if what == "evict" and not moments[-1].order.get("admit"):
            moments[-1].victims.add(of)
        if what in ("evict", "start"):
            evicted.add(of) if what == "evict" else evicted.discard(of)
    return [one for one in moments if one.order or one.runs or any(one.use.values())]


def _note_admission(admissions: list[list[Any]], use: Any) -> None:
    """Add an admission to those in a row that are of one queue, whose flavors have no order."""
    if admissions and admissions[-1][0][0] == use[0]:
        insort(admissions[-1], use)
    else:
        admissions.append([use])


def _list_outages(reading: Reading) -> list[tuple[float, float]]:
    """Return when the engine of a scenario stops, and when it is back."""
    spec = reading.scenario.spec
    restarts = [(list_times(one, spec.start)[0], one.restart) for one in spec.changes if one.restart is not None]
    return [(at, at + parse_seconds(one.lasts)) for at, one in restarts]


def _list_fair_queues(reading: Reading) -> set[str]:
    """Return the ClusterQueues that order their LocalQueues by past use."""
    queues = [one.document for one in reading.manifests if one.document["kind"] == "ClusterQueue"]
    return {one["metadata"]["name"] for one in queues if "admissionScope" in one["spec"]}


def _list_sent_queues(reading: Reading) -> set[str]:
    """Return the ClusterQueues that send their jobs to worker clusters."""
    queues = [one.document for one in reading.manifests if one.document["kind"] == "ClusterQueue"]
    return {one["metadata"]["name"] for one in queues if "admissionChecksStrategy" in one["spec"]}


class Unclear(NamedTuple):
    """Why two plays cannot be compared to their end."""

    why: str


FIRST = Unclear("another cluster was first")
BACK = Unclear("the quota of a job that a worker cluster evicted came free before the job was back in its queue")
OTHER_NODES = Unclear("jobs that lost their nodes together got other ones")
CAME = Unclear("the jobs that came during a restart came into the queues one after the other")
SEVERAL_KINDS = Unclear("jobs of several kinds that got quota together had their pods one after the other")
LIMIT = Unclear("the time limit of a job that lost its nodes to another job begins again")
EQUAL_PAST = Unclear("LocalQueues with the same past use differ slightly in a cluster")
DRAWN_VICTIM = Unclear("of jobs that got quota in the same second, the lowest UID is the victim")
ENDED = Unclear("the quota of the jobs that ended during a restart came free one after the other")


def _find_restart(journal: Journal, outages: Iterable[tuple[float, float]]) -> Unclear | None:
    """Return why a restarted engine may decide otherwise; None if it knows all at once."""
    happened = [what for at, what, _ in journal.events if any(since <= at <= until for since, until in outages)]
    if "submit" in happened:
        return CAME
    return ENDED if happened.count("end") > 1 else None


class Comparison:
    """A comparison of two plays up to their present moments, and where they parted without either being wrong."""

    def __init__(self, journal: Journal, reading: Reading, configuration: Configuration) -> None:
        self._journal = journal
        self._works = {one.name: one for one in reading.scenario.spec.work}
        self._outages = _list_outages(reading)
        self._fair_queues, self._sent_queues = _list_fair_queues(reading), _list_sent_queues(reading)
        clusters = [name for one in reading.scenario.spec.clusters for name in list_names(one)]
        # A cluster asks all clusters at once, too, but they answer one after the other.
        self.draws_homes = len(clusters) > 1 and configuration.multi_kueue.dispatcher_name == ALL_AT_ONCE
        self._other_past = self._other_homes = self._other_nodes = False
        self._joint_queues = set[str]()  # the ClusterQueues that gave quota to several jobs in one moment

    def list_restarts(self, fast: Moment) -> list[tuple[float, float]]:
        """Return the outages that end in a moment: queues come back one after the other, with decisions in between."""
        return [span for span in self._outages if span[1] <= fast.at <= span[1] + MOMENT_SECONDS]

    def note(self, fast: Moment, full: Moment) -> None:
        """Note where moments with the same decisions differ."""
        self._other_homes = self._other_homes or (self.draws_homes and not fast.has_homes_as(full))
        self._other_nodes = self._other_nodes or len(fast.order.get("interrupt", ())) > 1
        grants = [one.sum_grants(self._fair_queues) for one in (fast, full)]
        self._other_past = self._other_past or grants[0] != grants[1]
        rows = fast.order.get("admit", ())
        self._joint_queues |= {queue for (queue, *_), *others in rows if others}

    def explain(self, fast: Moment | None, full: Moment | None, restart: Unclear | None) -> Unclear | None:
        """Return why moments may have other decisions; None if there is no reason for that."""
        if fast is not None and full is not None:
            if fast.evicts_as(full):
                return Unclear("the quota of several victims came free one after the other")
            if restart is not None and fast.is_caused_as(full):
                return restart
            if self._is_back_late(fast, full):
                return BACK
            if (why := self._explain_starts(fast, full)) is not None:
                return why
        if fast is not None and self._had_lost_nodes(fast, full):
            return LIMIT
        if self._other_past:
            return Unclear("a job more got quota for a moment, which counts as past use")
        if self._other_homes:
            return FIRST
        return self._explain_evictions(fast, full) if fast is not None and full is not None else None

    def _explain_starts(self, fast: Moment, full: Moment) -> Unclear | None:
        """Return why other jobs may start by the same decisions, or lose their nodes; None if there is no reason."""
        here, there = fast.list_other_starts(full)
        if self._other_nodes and (here or there or fast.breaks_others_than(full)):
            return OTHER_NODES
        if not (here and there):
            return None
        kinds = [{self._find_work(name).template.get("kind") for name in names} for names in (here, there)]
        if kinds[0] != kinds[1]:
            return SEVERAL_KINDS
        return EQUAL_PAST if self._have_equal_past(here | there, fast.at) else None

    def _explain_evictions(self, fast: Moment, full: Moment) -> Unclear | None:
        if self._takes_back(fast, full):
            return BACK
        return DRAWN_VICTIM if self._draws_victims(fast, full) else None

    def _find_work(self, name: str) -> Work:
        return self._works[name.rpartition("-")[0]]

    def _is_back_late(self, fast: Moment, full: Moment) -> bool:
        """Return whether an evicted job of a queue with worker clusters gets its quota again in the fast engine only.

        A larger job may get it. A cluster requeues a workload that a check sent back after the write
        that frees its quota.
        """
        queues = {self._journal.queue_of[name] for name in fast.order.get("evict", ())} & self._sent_queues
        return fast.is_caused_as(full) and any(fast.sum_grants([one]) != full.sum_grants([one]) for one in queues)

    def _takes_back(self, fast: Moment, full: Moment) -> bool:
        """Return whether an evicted job of such a queue takes its quota back from another job, which got it late."""
        back, evicted = (set(one.order.get("evict", ())) for one in (fast, full))
        queues = {self._journal.queue_of[name] for name in back} & self._sent_queues
        followed = {self._journal.queue_of[name] for name in evicted - back}
        return bool(followed) and back <= evicted and followed <= queues and fast.uses_as(full)

    def _have_equal_past(self, names: Collection[str], until: float) -> bool:
        """Return whether jobs of one ClusterQueue are in LocalQueues from which as much was started until a moment."""
        queues = {self._find_work(name).queue for name in names}
        if len(queues) < 2 or not {self._journal.queue_of[name] for name in names} <= self._fair_queues:
            return False
        used = {queue: Counter[Any]() for queue in queues}
        for at, what, name in self._journal.events:
            if what == "start" and at < until and (queue := self._find_work(name).queue) in queues:
                for key, amount in self._journal.demands[name]:
                    used[queue][key] += amount
        return len(set(map(repr, map(sorted, map(Counter.items, used.values()))))) == 1

    def _draws_victims(self, fast: Moment, full: Moment) -> bool:
        """Return whether the first victims differ, and are as many jobs of the same priority.

        They are of a ClusterQueue that gave quota to several jobs in one moment.
        """
        causes = [fast.order.get("submit"), full.order.get("submit")], [fast.order.get("end"), full.order.get("end")]
        same = all(one == other for one, other in causes) and abs(fast.at - full.at) <= LATE_SECONDS
        here, there = fast.victims - full.victims, full.victims - fast.victims
        queues = {self._journal.queue_of[name] for name in here | there}
        priorities = {self._journal.priorities[name] for name in here | there}
        drawn = len(here) == len(there) == len(priorities) == 1
        return same and drawn and queues <= self._joint_queues

    def _had_lost_nodes(self, fast: Moment, full: Moment | None) -> bool:
        """Return whether a job that ends at its limit in the fast engine only had lost its nodes, but not its quota."""
        there = full.order.get("over limit", ()) if full is not None else ()
        overdue = {*fast.order.get("over limit", ())}.difference(there)
        return any(
            what == "evict" and of in overdue and not (then in ("use", "there") and used[-1] < 0)
            for (_, what, of), (_, then, used) in pairwise(self._journal.events)
        )


def find_difference(file: str, configuration: Configuration = CONFIGURATION) -> str | Unclear:
    """Return where the engines differ; "" if they do not."""
    fast, fast_waiting = play(file, World, configuration)
    if not is_clear(fast):
        return Unclear("two moments are too close to each other to be compared")
    full, full_waiting = play(file, FullEngine, configuration)
    comparison = Comparison(fast, read_scenario(file), configuration)
    for one, other in zip_longest(list_moments(fast), list_moments(full)):
        back = [] if one is None else comparison.list_restarts(one)
        restart = _find_restart(fast, back)
        if one is None or other is None or not (one.is_as(other) or one.follows_as(other, loose=bool(back))):
            return comparison.explain(one, other, restart) or f"fast {one}\nfull {other}"
        comparison.note(one, other)
        if not one.starts_as(other):
            return restart or Unclear("the room of evicted jobs came free for another job")
        if not one.locates_as(other):
            return FIRST if comparison.draws_homes else f"fast {one}\nfull {other}"
    return "" if fast_waiting == full_waiting else f"at the end there wait\nfast {fast_waiting}\nfull {full_waiting}"
