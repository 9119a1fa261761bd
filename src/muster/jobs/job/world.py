"""Track the *world* of an elastic Job: the number of workers, and how often that number has changed (the epoch).

The Job stores its world in an annotation. Its pods copy the annotation, and their processes read it from a file.
Workers rely on two rules: the epoch that they read only grows, and each epoch has one size. So a world is never
withdrawn, and a world that only a pod has recorded counts as much as the world that the Job has recorded. The Job's
annotation may have been lost (`kubectl replace`), or may have been out of date when a pod was created.
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

# On a pod: the size of the world when the pod was placed, as a bare number, for a variable like WORLD_SIZE.
FIRST_SIZE_ANNOTATION = "muster.dev/world-size"

# The largest integer that all JSON readers represent exactly.
_MOST = 2**53 - 1
# The longest text that is parsed; every world is shorter.
_LONGEST_TEXT = 100


class Announcement(Struct, frozen=True):
    """The world of an elastic job, to be written into annotations.

    on_job: whether to write it on the Job first, before any pod gets it.
    on_pods: the remaining pods whose annotation has another world.
    """

    world: World
    on_job: bool = False
    on_pods: tuple[Pod, ...] = ()


def make_announcement(job: Job, pods: Sequence[Pod]) -> Announcement | None:
    """Return the world to write on the Job or its pods.

    Return None if they all have it already, or if the Job is not elastic or has ended.
    """
    if not has_world(job) or finish(job) is not None or job.metadata.deletion_timestamp is not None:
        return None
    active = [pod for pod in pods if is_active(pod)]
    if _grows_on_credit(job, active):
        return None
    world = find_current_world(job, active)
    if world_of(job.metadata) != world:
        return Announcement(world, on_job=True)
    behind = tuple(pod for pod in active if completion_index(pod) < world.size and world_of(pod.metadata) != world)
    return Announcement(world, on_pods=behind) if behind else None


def _grows_on_credit(job: Job, active: Sequence[Pod]) -> bool:
    """Return whether the Job has grown but its additional pods have no quota yet. Its world must not change then."""
    recorded_world = world_of(job.metadata)
    if (
        recorded_world is None
        or QUEUE_NAME_LABEL not in job.metadata.labels
        or (job.spec.completions or 0) <= recorded_world.size
    ):
        return False
    new = [pod for pod in active if completion_index(pod) >= recorded_world.size]
    return not new or any(is_gated(pod) for pod in new)


def has_world(job: Job) -> bool:
    """Return whether the Job is elastic, so that it has a world.

    An elastic Job is Indexed. It has the user's annotation `ELASTIC_ANNOTATION`, or it is the copy of such a Job in a
    worker cluster, which has its world. A copy has no bounds: its size is the size of the original Job.
    """
    meta = job.metadata
    marked = ELASTIC_ANNOTATION in meta.annotations
    return job.spec.completion_mode == INDEXED and (
        marked or (is_elastic(meta.annotations) and world_of(meta) is not None)
    )


def find_current_world(job: Job, pods: Iterable[Pod] = ()) -> World:
    """Return the current world of an elastic Job.

    It is the newest world that the Job or its pods record, or the next one if the Job's size differs from that. If
    neither records one, the world has epoch 1.
    """
    # A pod that waits for quota has a world that may never take effect, and no worker has read it.
    metas_of_pods = (pod.metadata for pod in pods if not is_gated(pod))
    worlds = [world for meta in (job.metadata, *metas_of_pods) if (world := world_of(meta))]
    epoch = max((world.epoch for world in worlds), default=0)
    now = World(job.spec.completions or 0, epoch)
    newest = {world for world in worlds if world.epoch == epoch}
    return now if newest == {now} else World(now.size, epoch + 1)


def world_of(meta: ObjectMeta) -> World | None:
    """Return the world (size and epoch) in the object's annotation; None if the annotation is missing or invalid."""
    text = meta.annotations.get(WORLD_ANNOTATION, "")
    if not 0 < len(text) <= _LONGEST_TEXT:
        return None
    try:
        world = msgspec.json.decode(text, type=World)
    except msgspec.DecodeError:
        return None
    return world if 0 <= world.size <= _MOST and 1 <= world.epoch < _MOST else None


def make_world_annotations(world: World) -> dict[str, str]:
    """Return the annotations that record a world on the Job and on its pods."""
    return {WORLD_ANNOTATION: msgspec.json.encode(world).decode()}


def pod_annotations(pod: Pod, world: World) -> dict[str, str]:
    """Return the annotations that record a world on an existing pod.

    A pod without a node has not started, so this world is also recorded as the world in which its worker starts.
    """
    return make_world_annotations(world) if pod.spec.node_name else birth_annotations(world)


def birth_annotations(world: World) -> dict[str, str]:
    """Return the annotations of a new pod, which record this world (size and epoch) as the one its worker starts in."""
    return make_world_annotations(world) | {FIRST_SIZE_ANNOTATION: str(world.size)}
