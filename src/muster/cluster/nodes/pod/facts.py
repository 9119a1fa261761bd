"""What is known of a pod on its node, and what can be done to it: the two sides of `pod.machine.decide`.

Wall-clock times (`datetime`) are for users to read; everything that is waited for is in seconds of the monotonic clock
(`float`), so that a clock that is set does not end or prolong anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from muster.api.core.podstatus import ResourceStatus


@dataclass(frozen=True, slots=True)
class Now:
    """One moment, on both clocks."""

    wall: datetime
    monotonic: float


@dataclass(frozen=True, slots=True)
class Exit:
    """How an attempt ended."""

    code: int
    reason: str  # Completed, Error, OOMKilled, StartError, ContainerStatusUnknown
    message: str
    started_at: datetime | None  # None if it never ran
    finished_at: datetime
    finished: float
    ran_seconds: float
    container_id: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a container, from its start on."""

    number: int  # 0 for the first: how many restarts there were
    container_id: str
    started_at: datetime | None = None
    exit: Exit | None = None
    started: bool = False  # the startup probe has passed and the postStart hook is done
    ready: bool = False  # the readiness probe passes
    condemned: str = ""  # why it must be ended and started again; a sentence
    condemned_grace_seconds: int | None = None  # of the probe that condemned it, if it has its own
    stopping_since: float | None = None  # when it was asked to end
    killed: bool = False  # it was sent SIGKILL

    @property
    def alive(self) -> bool:
        """Whether there are processes of it."""
        return self.exit is None


@dataclass(frozen=True, slots=True)
class Trouble:
    """A container that cannot be created (upstream's waiting reasons), or a pod that cannot be set up."""

    reason: str
    message: str
    retry_at: float


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """What is known of a container."""

    attempt: Attempt | None = None  # the newest
    previous: Exit | None = None  # how the attempt before it ended
    restarts: int = 0  # in a row, for the back-off
    starting: bool = False  # an attempt is being started right now
    reserved: bool = False  # there is a shim for its first attempt, which waits to be told of it
    trouble: Trouble | None = None


UNKNOWN = ContainerFacts()


@dataclass(frozen=True, slots=True)
class Ending:
    """Why the node itself ends a pod."""

    why: Literal["gone", "shutdown", "rejected"]  # its object is gone; the node stops; the node never took it
    since: float
    grace_seconds: float
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What is known of a pod."""

    containers: Mapping[str, ContainerFacts] = field(default_factory=dict)
    prepared: bool = False  # address, hosts file and volumes are there
    trouble: Trouble | None = None  # why not
    start_time: datetime | None = None  # when the node took the pod
    deadline: float | None = None  # when activeDeadlineSeconds are over
    deleting_since: float | None = None  # when the node saw the deletion
    ending: Ending | None = None
    address: str = ""
    host_address: str = ""
    devices: Mapping[str, tuple[ResourceStatus, ...]] = field(default_factory=dict)  # by container

    def of(self, name: str) -> ContainerFacts:
        """What is known of a container."""
        return self.containers.get(name, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Prepare:
    """Set up address, hosts file and volumes."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """Make the shim of a container's first attempt, for when the time for that has come. It runs nothing before."""

    container: str


@dataclass(frozen=True, slots=True)
class Start:
    """Start an attempt of a container. `restarts` is what its facts shall say then."""

    container: str
    number: int
    restarts: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Ask a container to end: the preStop hook, then the stop signal. `why` is the event's message."""

    container: str
    why: str
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class Kill:
    """End a container at once."""

    container: str


Action = Prepare | Reserve | Start | Stop | Kill


@dataclass(frozen=True, slots=True)
class PodNote:
    """Something worth an event, once for as long as it stays in the plan. `about` tells repetitions apart."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    container: str = ""
    about: int = 0
