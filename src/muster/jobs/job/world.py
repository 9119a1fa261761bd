"""The world of an elastic Job: how many workers there are, and how often that has changed.

The Job keeps it in an annotation, from which its pods get theirs, and their processes a file. A worker must be able to
rely on it: the epoch that it reads only grows, and with one epoch goes one size. So a world is never taken back, and
what any pod may have read counts as much as what the Job says: the annotation may have been lost (`kubectl replace`),
or have been behind when a pod was made.
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from muster.api.batch import INDEXED, Job
from muster.api.core import Pod
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.meta import ObjectMeta
from muster.api.ours.elastic import ELASTIC_ANNOTATION, WORLD_ANNOTATION, World, is_elastic
from muster.api.pods import is_active
from muster.jobs.job.census import completion_index
from muster.jobs.job.conditions import finish
from muster.jobs.job.quota import is_gated

# On a pod: the size of the world when it was placed, as a bare number, for a variable like WORLD_SIZE.
FIRST_SIZE_ANNOTATION = "muster.dev/world-size"

# Numbers above it are not the same to every reader of JSON.
_MOST = 2**53 - 1
# More than any world takes; what is longer need not be parsed.
_LONGEST_TEXT = 100


class Announcement(Struct, frozen=True):
    """A world that is to be written down.

    on_job: on the Job. Only when it is there are pods told.
    on_pods: those that say something else and are to stay.
    """

    world: World
    on_job: bool = False
    on_pods: tuple[Pod, ...] = ()


def announce(job: Job, pods: Sequence[Pod]) -> Announcement | None:
    """What the Job or its pods do not say yet; None if they do, or the Job has no world (any more)."""
    if not has_world(job) or finish(job) is not None or job.metadata.deletion_timestamp is not None:
        return None
    active = [pod for pod in pods if is_active(pod)]
    if _grows_on_credit(job, active):
        return None
    world = current(job, active)
    if world_of(job.metadata) != world:
        return Announcement(world, on_job=True)
    behind = tuple(pod for pod in active if completion_index(pod) < world.size and world_of(pod.metadata) != world)
    return Announcement(world, on_pods=behind) if behind else None


def _grows_on_credit(job: Job, active: Sequence[Pod]) -> bool:
    """Whether the Job queues and has no quota yet for the pods that it wants more: so long its workers go on."""
    said = world_of(job.metadata)
    if said is None or QUEUE_NAME_LABEL not in job.metadata.labels or (job.spec.completions or 0) <= said.size:
        return False
    new = [pod for pod in active if completion_index(pod) >= said.size]
    return not new or any(is_gated(pod) for pod in new)


def has_world(job: Job) -> bool:
    """Whether the Job is elastic: Indexed, and marked by the user; or it has a world, as the copy of such a Job has.

    A copy has no bounds: its size is that of the Job.
    """
    meta = job.metadata
    marked = ELASTIC_ANNOTATION in meta.annotations
    return job.spec.completion_mode == INDEXED and (
        marked or (is_elastic(meta.annotations) and world_of(meta) is not None)
    )


def current(job: Job, pods: Iterable[Pod] = ()) -> World:
    """The world of an elastic Job as it is now: the newest that is known, or the next if that has another size."""
    # A pod that waits for quota was born into a world that may never come to be, and has told no worker.
    told = (pod.metadata for pod in pods if not is_gated(pod))
    known = [world for meta in (job.metadata, *told) if (world := world_of(meta))]
    epoch = max((world.epoch for world in known), default=0)
    now = World(job.spec.completions or 0, epoch)
    newest = {world for world in known if world.epoch == epoch}
    return now if newest == {now} else World(now.size, epoch + 1)


def world_of(meta: ObjectMeta) -> World | None:
    """What the object's annotation says; None if it has none, or one that we have not written."""
    text = meta.annotations.get(WORLD_ANNOTATION, "")
    if not 0 < len(text) <= _LONGEST_TEXT:
        return None
    try:
        world = msgspec.json.decode(text, type=World)
    except msgspec.DecodeError:
        return None
    return world if 0 <= world.size <= _MOST and 1 <= world.epoch < _MOST else None


def annotations(world: World) -> dict[str, str]:
    """What says so on the Job and on its pods."""
    return {WORLD_ANNOTATION: msgspec.json.encode(world).decode()}


def pod_annotations(pod: Pod, world: World) -> dict[str, str]:
    """What says so on a pod: one that has no node yet has not begun, and begins with this world."""
    return annotations(world) if pod.spec.node_name else birth_annotations(world)


def birth_annotations(world: World) -> dict[str, str]:
    """What a pod has when its worker starts."""
    return annotations(world) | {FIRST_SIZE_ANNOTATION: str(world.size)}
