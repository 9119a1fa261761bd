"""What the controller itself has written, until its caches show it.

A decision on a cache that lacks our own last writes would do them again: a second pod for an index, a pod counted
twice. So a Job is not looked at before the caches have caught up (as in Kubernetes since 1.36). Versions of one
resource are comparable numbers (KEP-5504), so one number stands for any count of writes, and a list after a lost
watch answers the question like an event does. A deletion has no version in its answer: its pod must be seen going.
"""

from collections.abc import Iterable

from msgspec import Struct, field

from muster.api.batch import Job
from muster.api.core import Pod
from muster.runtime.objects import NO_REVISION, Revision, revision, revision_of


class OwnWrites(Struct):
    """What we wrote about one Job.

    job_version: of its last status.
    pods_version: the newest of its pods.
    going: UIDs of pods that we asked to be deleted.
    gone: UIDs of pods that the server no longer knows.
    """

    job_version: Revision = NO_REVISION
    pods_version: Revision = NO_REVISION
    going: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def job_written(self, job: Job) -> None:
        """The server stored this."""
        self.job_version = max(self.job_version, revision_of(job))

    def pod_written(self, pod: Pod) -> None:
        """The server stored this."""
        self.pods_version = max(self.pods_version, revision_of(pod))

    def pod_seen(self, uid: str, pod: Pod | None) -> None:
        """The cache has the pod like this now, or no more."""
        if pod is None:
            self.gone.discard(uid)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            self.going.discard(uid)

    def are_seen(self, job: Job, pods_version: str) -> bool:
        """Whether the caches show all of it; of deletions, those that were told by `pod_seen`."""
        return (
            revision_of(job) >= self.job_version
            and revision(pods_version) >= self.pods_version
            and not self.going
            and not self.gone
        )

    def look(self, pods: Iterable[Pod]) -> None:
        """Compare with all the Job's pods in the cache, in case an event was missed."""
        if self.going or self.gone:
            present = {pod.metadata.uid: pod for pod in pods}
            for uid in (*self.going, *self.gone):
                self.pod_seen(uid, present.get(uid))
