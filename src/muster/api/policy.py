"""`policy/v1`: the Eviction subresource of pods."""

from muster.api.meta import DeleteOptions, ObjectMeta, Struct


class Eviction(Struct):
    """Asks for a pod to be ended gracefully.

    metadata: names the pod.
    delete_options: how to delete it.
    """

    metadata: ObjectMeta = ObjectMeta()
    delete_options: DeleteOptions | None = None
