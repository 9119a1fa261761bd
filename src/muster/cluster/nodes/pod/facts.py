"""Define the input and output of `pod.machine.decide`: the state of a pod on its node, and the actions on it.

Wall-clock times (`datetime`) are for users to read. Delays and deadlines are in seconds of the monotonic clock
(`float`), so that a change of the wall clock does not shorten or prolong them.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from muster.api.core.podstatus import ResourceStatus


class Now(Struct, frozen=True):
    """The current time on the wall clock and on the monotonic clock."""

    wall: datetime
    monotonic: float


class Exit(Struct, frozen=True):
    """The exit of an attempt of a container."""

    code: int
    reason: str  # Completed, Error, OOMKilled, StartError, ContainerStatusUnknown
    message: str
    started_at: datetime | None  # None if it never ran
    finished_at: datetime
    finished: float
    ran_seconds: float
    container_id: str


class Attempt(Struct, frozen=True):
    """One run of a container, which may have exited."""

    number: int  # 0 for the first: the number of restarts
    container_id: str
    started_at: datetime | None = None
    exit: Exit | None = None
    started: bool = False  # the startup probe has passed and the postStart hook is done
    ready: bool = False  # the readiness probe passes
    condemned: str = ""  # why the container must be ended and restarted; a sentence
    condemned_grace_seconds: int | None = None  # the failed probe's own grace period, if it has one
    stopping_since: float | None = None  # when the container was asked to end
    killed: bool = False  # the container was sent SIGKILL

    @property
    def is_alive(self) -> bool:
        """Whether the attempt has not exited."""
        return self.exit is None


class Trouble(Struct, frozen=True):
    """The reason why a container or a pod cannot be set up now.

    reason, message: as in the kubelet's waiting state of a container.
    retry_at: when to retry, by the monotonic clock.
    """

    reason: str
    message: str
    retry_at: float


class ContainerFacts(Struct, frozen=True):
    """The state of a container, as input for decisions about its pod."""

    attempt: Attempt | None = None  # the newest
    previous: Exit | None = None  # how the attempt before it ended
    restarts: int = 0  # consecutive restarts, for the back-off
    starting: bool = False  # an attempt is being started right now
    reserved: bool = False  # a shim for its first attempt exists and waits for its spec
    trouble: Trouble | None = None


UNKNOWN = ContainerFacts()


class EndDecision(Struct, frozen=True):
    """A decision of the node itself to terminate a pod, with its reason."""

    # gone: the pod's object is deleted. shutdown: the node stops with its cluster. left: the node leaves a running
    # cluster. interrupted: the node was down. rejected: the node never admitted the pod. oversized: the pod's status
    # does not fit into its object. fenced: the node has not reached its server for so long that the pod may run
    # elsewhere. evicted: a volume of the pod exceeds its limit.
    why: Literal["gone", "shutdown", "left", "interrupted", "rejected", "oversized", "fenced", "evicted"]
    since: float
    grace_seconds: float
    reason: str = ""
    message: str = ""


class PodFacts(Struct, frozen=True):
    """The state of a pod on its node, as input for decisions about the pod."""

    containers: Mapping[str, ContainerFacts] = field(default_factory=dict)
    prepared: bool = False  # address, hosts file and volumes exist
    trouble: Trouble | None = None  # why they do not
    start_time: datetime | None = None  # when the node admitted the pod
    deadline: float | None = None  # when activeDeadlineSeconds have passed
    deleting_since: float | None = None  # when the node observed the deletion
    ending: EndDecision | None = None
    address: str = ""
    host_address: str = ""
    devices: Mapping[str, tuple[ResourceStatus, ...]] = field(default_factory=dict)  # by container

    def of(self, name: str) -> ContainerFacts:
        """Return the state of a container; `UNKNOWN` if nothing is known about it."""
        return self.containers.get(name, UNKNOWN)


class Prepare(Struct, frozen=True):
    """The action that sets up the pod's address, hosts file and volumes."""


class Reserve(Struct, frozen=True):
    """The action that starts the shim of a container's first attempt in advance, without a program."""

    container: str


class Start(Struct, frozen=True):
    """The action that starts an attempt of a container.

    number: the number of the attempt.
    restarts: the container's new count of restarts.
    """

    container: str
    number: int
    restarts: int


class Stop(Struct, frozen=True):
    """The action that terminates a container gracefully, by the preStop hook and then the stop signal.

    why: the event's message.
    """

    container: str
    why: str
    grace_seconds: float


class Kill(Struct, frozen=True):
    """The action that kills a container at once."""

    container: str


Action = Prepare | Reserve | Start | Stop | Kill


class PodNote(Struct, frozen=True):
    """An event for users about a state of the pod.

    As long as successive plans contain the same note, the event is recorded only once.

    about: a number that distinguishes repetitions.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    container: str = ""
    about: int = 0
