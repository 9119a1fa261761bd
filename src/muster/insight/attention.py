"""Decide what in a cluster needs somebody's attention, and what to do about it. Pure.

The module takes the queues, flavors and nodes that a user may see, and the rows of the jobs, and returns sentences.
Parts that the user may not see are None, and no sentence mentions them. `reader.attention` reads the cluster.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from muster.api.conditions import find
from muster.api.core import Node
from muster.api.kueue import STOP_NONE, ClusterQueue, LocalQueue, ResourceFlavor
from muster.api.kueue.names import FLAVOR_NOT_FOUND, TOPOLOGY_NOT_FOUND
from muster.api.nodes import describe_full_disk, has_full_disk, is_ready
from muster.api.ours.embedded import SHORTAGE_ANNOTATION
from muster.api.ours.gpus import GPU_PROBLEM, GPUS_ANNOTATION, parse_gpus
from muster.insight.clusters import WorkerClusterState, advise_on_cluster
from muster.insight.jobs.state import tells_never
from muster.insight.quota.queues import describe_resume, explain_inactive
from muster.insight.text import count_things, list_names

Topic: TypeAlias = Literal[
    "server", "engine", "nodes", "shortage", "gpus", "flavor", "clusterqueue", "localqueue", "job", "cluster"
]

# The maximum number of problems of one topic that are listed one by one.
_MOST_ALIKE = 5
# States of jobs that wait for a queue. In any other state, the job's queue does not matter.
_WAITS = ("Queued", "Suspended", "Pending")
_ADVICE = {
    FLAVOR_NOT_FOUND: "Create the ResourceFlavor, or take it out of the queue",
    TOPOLOGY_NOT_FOUND: "Create the Topology, or take it out of the ResourceFlavor",
}


class Trouble(Struct, frozen=True):
    """A problem that a user or an administrator should look at.

    grave: whether the problem keeps jobs from starting, and no user caused it on purpose.
    namespace, name: the object with the problem; "" if the problem is about several objects.
    sentence: the problem.
    advice: what the reader can do.
    """

    topic: Topic
    sentence: str
    advice: str
    grave: bool = True
    namespace: str = ""
    name: str = ""


class Scene(Struct, frozen=True):
    """The parts of a cluster in which problems are looked for.

    A part is None if the user may not list it or the server does not serve it.

    silence: why no engine responds; "" if one does.
    unready: the failed readiness checks of the server, with the reason.
    jobs: the rows that `reader.jobs` made.
    clusters: the worker clusters of MultiKueue.
    """

    silence: str = ""
    unready: Sequence[str] = ()
    nodes: Sequence[Node] | None = None
    flavors: Sequence[ResourceFlavor] | None = None
    cluster_queues: Sequence[ClusterQueue] | None = None
    local_queues: Sequence[LocalQueue] | None = None
    jobs: Sequence[Mapping[str, Any]] = ()
    clusters: Sequence[WorkerClusterState] | None = None


def find_troubles(scene: Scene) -> list[Trouble]:
    """Return all problems of a cluster, grave problems first.

    If there are many similar problems, only the first few are listed.
    """
    troubles = [
        *(Trouble("server", f"The server is not ready: {one}", "Its log says more") for one in scene.unready),
        *_find_engine(scene.silence),
        *_find_absence_of_nodes(scene),
        *_find_nodes(scene.nodes or ()),
        *_limit_troubles(_find_shortages(scene.nodes or ()), "node"),
        *_find_gpus(scene.nodes or ()),
        *_limit_troubles(_find_clusters(scene.clusters or ()), "worker cluster"),
        *_limit_troubles(_find_flavors(scene), "ResourceFlavor"),
        *_limit_troubles(_find_cluster_queues(scene.cluster_queues or ()), "ClusterQueue"),
        *_limit_troubles(_find_local_queues(scene), "LocalQueue"),
        *_limit_troubles(_find_jobs_without_queue(scene), "job"),
        *_limit_troubles(_find_hopeless_jobs(scene.jobs), "job"),
    ]
    return sorted(troubles, key=lambda one: not one.grave)


def _limit_troubles(troubles: Iterable[Trouble], thing: str) -> list[Trouble]:
    """Return the first few of some problems, grave ones first, and a last entry with the number of the others.

    thing: the noun for a problem in that entry.
    """
    ordered = sorted(troubles, key=lambda one: not one.grave)
    shown, rest = ordered[:_MOST_ALIKE], ordered[_MOST_ALIKE:]
    if not rest:
        return shown
    more = f"{count_things(len(rest), f'more {thing}', f'more {thing}s')} like these"
    is_grave = any(one.grave for one in rest)
    return [*shown, Trouble(rest[0].topic, more, "They are shown once these are mended", is_grave)]


def _find_engine(silence: str) -> Iterator[Trouble]:
    if silence:
        yield Trouble("engine", _capitalize(silence), "Start it, or look at its log: muster controllers")


def _find_absence_of_nodes(scene: Scene) -> Iterator[Trouble]:
    """Yield one problem if jobs wait and the cluster has no node. A cluster with worker clusters needs no nodes."""
    waiting = [one for one in scene.jobs if one["state"] in _WAITS]
    if scene.nodes is not None and not scene.nodes and not scene.clusters and waiting:
        said = f"There is no node, and {count_things(len(waiting), 'job waits', 'jobs wait')}"
        advice = "Add a machine: muster nodes --nodes process; an autoscaler adds nodes by itself"
        yield Trouble("nodes", said, advice, grave=False)


def _find_nodes(nodes: Sequence[Node]) -> Iterator[Trouble]:
    lost = [node.metadata.name for node in nodes if not is_ready(node)]
    full = [node.metadata.name for node in nodes if has_full_disk(node)]
    cordoned = [node.metadata.name for node in nodes if node.spec.unschedulable]
    if lost:
        said = f"{_count_nodes(lost, nodes)} {'is' if len(lost) == 1 else 'are'} not ready: {list_names(lost)}"
        yield _make_node_trouble(lost, said, "Look at the machine and its agent: kubectl describe node NODE")
    if full:
        said = f"The disk of {_count_nodes(full, nodes)} is full, so no new pods start there: {list_names(full)}"
        disk = next((describe_full_disk(node) for node in nodes if has_full_disk(node)), "")
        which = f": {disk}" if disk and len(full) == 1 else ""
        yield _make_node_trouble(full, said + which, "Free some of the disk")
    if nodes and not any(is_ready(node) and not node.spec.unschedulable for node in nodes):
        yield Trouble("nodes", "No node takes new pods: all are cordoned or not ready", "Uncordon one, or add nodes")
    elif cordoned:
        said = f"{_count_nodes(cordoned, nodes)} cordoned, so no new pods start there: {list_names(cordoned)}"
        yield _make_node_trouble(cordoned, said, "Once it is well again: kubectl uncordon NODE", grave=False)


def _make_node_trouble(names: Sequence[str], sentence: str, advice: str, *, grave: bool = True) -> Trouble:
    """Return a problem of some nodes. Its advice names the node if there is only one."""
    if len(names) > 1:
        return Trouble("nodes", sentence, advice, grave)
    return Trouble("nodes", sentence, advice.replace("NODE", names[0]), grave, name=names[0])


def _count_nodes(names: Sequence[str], nodes: Sequence[Node]) -> str:
    return f"{len(names)} of {count_things(len(nodes), 'node', 'nodes')}"


def _find_shortages(nodes: Sequence[Node]) -> Iterator[Trouble]:
    """Yield a problem for each node that offers less than its options promise."""
    for node in nodes:
        if shortage := node.metadata.annotations.get(SHORTAGE_ANNOTATION):
            name = node.metadata.name
            advice = "Mend the machine, or start the server with what it has: muster restart --nodes process"
            yield Trouble("shortage", f"{name} offers {shortage}", advice, grave=False, name=name)


def _find_gpus(nodes: Sequence[Node]) -> Iterator[Trouble]:
    ill: dict[str, int] = {}
    reasons = []
    for node in nodes:
        gpus = parse_gpus(node.metadata.annotations.get(GPUS_ANNOTATION, ""))
        if count := sum(gpu.ill for gpu in gpus):
            ill[node.metadata.name] = count
            problem = find(node.status.conditions, GPU_PROBLEM)
            reasons += [problem.message] if problem is not None and problem.message else []
    if not ill:
        return
    said = f"{count_things(sum(ill.values()), 'GPU is', 'GPUs are')} ill on {list_names([*ill])}; no new pod gets them"
    reason = f": {reasons[0]}" if len(ill) == 1 and reasons else ""
    name = next(iter(ill)) if len(ill) == 1 else ""
    yield Trouble("gpus", said + reason, "Reset or replace them; the node's page names each", name=name)


def _find_clusters(clusters: Iterable[WorkerClusterState]) -> Iterator[Trouble]:
    for one in clusters:
        if one.word == "Lost":
            sentence = f"Worker cluster {one.name} is lost: {one.reason}"
            yield Trouble("cluster", sentence, advise_on_cluster(one), name=one.name)


def _find_flavors(scene: Scene) -> Iterator[Trouble]:
    """Yield a problem for each flavor that ClusterQueues use although no node has its labels.

    A cluster without nodes has no such problem, because it sends its jobs to worker clusters.
    """
    if not scene.nodes or not scene.flavors:
        return
    users = _list_users_of_flavors(scene.cluster_queues or ())
    for flavor in scene.flavors:
        name, labels = flavor.metadata.name, flavor.spec.node_labels
        if not labels or not users[name] or any(labels.items() <= node.metadata.labels.items() for node in scene.nodes):
            continue
        words = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        yield Trouble(
            "flavor",
            f"ResourceFlavor {name} is for nodes with {words}, and no node has these labels: "
            f"jobs that ClusterQueue {list_names(users[name])} admits to it find no node",
            f"Label the nodes: kubectl label node NODE {words.replace(',', ' ')}",
            name=name,
        )


def _list_users_of_flavors(queues: Iterable[ClusterQueue]) -> dict[str, list[str]]:
    """Return the names of the ClusterQueues that have quota of each flavor, by the flavor's name."""
    users: dict[str, list[str]] = defaultdict(list)
    for queue in queues:
        for group in queue.spec.resource_groups:
            for flavor in group.flavors:
                if any(str(one.nominal_quota) != "0" for one in flavor.resources):
                    users[flavor.name].append(queue.metadata.name)
    return users


def _find_cluster_queues(queues: Iterable[ClusterQueue]) -> Iterator[Trouble]:
    for queue in queues:
        name = queue.metadata.name
        if queue.spec.stop_policy != STOP_NONE:
            sentence = f"ClusterQueue {name} is stopped, so nothing starts from it"
            advice = f"Start it again: {describe_resume(name, cluster=True)}"
            yield Trouble("clusterqueue", sentence, advice, grave=False, name=name)
        elif why := explain_inactive(queue.status.conditions):
            active = find(queue.status.conditions, "Active")
            reason = active.reason if active is not None else ""
            advice = _ADVICE.get(reason, f"Look at it: kubectl describe clusterqueue {name}")
            yield Trouble("clusterqueue", f"ClusterQueue {name}: {why.rstrip('.')}", advice, name=name)


def _find_local_queues(scene: Scene) -> Iterator[Trouble]:
    behind = None if scene.cluster_queues is None else {one.metadata.name for one in scene.cluster_queues}
    for queue in scene.local_queues or ():
        namespace, name, target = queue.metadata.namespace, queue.metadata.name, queue.spec.cluster_queue
        title = f"LocalQueue {name} of namespace {namespace}"
        if not target or (behind is not None and target not in behind):
            what = f"names ClusterQueue {target}, which does not exist" if target else "names no ClusterQueue"
            make = f"Create it: muster queue create {target} --no-local, or " if target else ""
            advice = f"{make}delete the LocalQueue: kubectl delete localqueue {name} -n {namespace}"
            sentence = f"{title} {what}: its jobs wait for ever"
            yield Trouble("localqueue", sentence, _capitalize(advice), namespace=namespace, name=name)
        elif queue.spec.stop_policy != STOP_NONE:
            advice = f"Start it again: {describe_resume(name, cluster=False)} -n {namespace}"
            sentence = f"{title} is stopped, so nothing starts from it"
            yield Trouble("localqueue", sentence, advice, grave=False, namespace=namespace, name=name)


def _find_jobs_without_queue(scene: Scene) -> Iterator[Trouble]:
    if scene.local_queues is None:
        return
    queues: dict[str, dict[str, LocalQueue]] = defaultdict(dict)  # LocalQueues by their namespaces and names
    for queue in scene.local_queues:
        queues[queue.metadata.namespace][queue.metadata.name] = queue
    for row in scene.jobs:
        namespace, name, queue_name = row["namespace"], row["name"], row["queue"]
        there = queues[namespace]
        if not queue_name or row["state"] not in _WAITS or queue_name in there:
            continue
        sentence = f"Job {namespace}/{name} is for queue {queue_name}, and namespace {namespace} has no such queue"
        yield Trouble("job", sentence, _advise_queue(row, _list_usable(there.values())), namespace=namespace, name=name)


def _list_usable(queues: Iterable[LocalQueue]) -> list[str]:
    """Return the sorted names of the LocalQueues that accept jobs: they are active and have a ClusterQueue."""
    return sorted(one.metadata.name for one in queues if one.spec.cluster_queue and not _is_inactive(one))


def _is_inactive(queue: LocalQueue) -> bool:
    active = find(queue.status.conditions, "Active")
    return active is not None and active.status == "False"


def _advise_queue(row: Mapping[str, Any], there: Sequence[str]) -> str:
    """Return a sentence on what to do about a job whose LocalQueue does not exist, with the command.

    there: the LocalQueues of the job's namespace that accept jobs.
    """
    namespace = row["namespace"]
    if not there:
        return f"Create the queue: muster queue create {row['queue']} -n {namespace}"
    move = f"muster alter {row['name']} --queue {there[0]} -n {namespace}"
    return f"Move it to another (there is {list_names(there)}): {move}"


def _find_hopeless_jobs(rows: Iterable[Mapping[str, Any]]) -> Iterator[Trouble]:
    for row in rows:
        if tells_never(row["reason"]):
            namespace, name = row["namespace"], row["name"]
            advice = f"Ask for less, or make room for it: muster why {name} -n {namespace}"
            yield Trouble("job", f"Job {namespace}/{name} {row['reason']}", advice, namespace=namespace, name=name)


def _capitalize(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
