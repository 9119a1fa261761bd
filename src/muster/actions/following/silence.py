"""Decide how long a follower waits for a server that does not respond: `Silence`."""

from msgspec import Struct
from msgspec.structs import replace

from muster.runtime.transport import SilentError, TransportError

# A follower soon gives up on a server whose process no longer exists. It waits longer for a server that does not
# respond in time, because such a server may recover: its machine may be short of memory, its process may be stopped, or
# the network may be down.
GONE_SECONDS = 30.0
SILENT_SECONDS = 600.0


class Silence(Struct, frozen=True):
    """The time for which a server has not responded. Times are seconds on the monotonic clock.

    answered: the time of the server's last response.
    met: the time at which a request last reached a server, with or without a response.
    failed: the time at which the last request failed; equal to `met` if that request reached a server.
    limit: the seconds for which the follower keeps trying: the largest limit since the last response; 0 before a
    failure.
    """

    answered: float
    met: float
    failed: float
    limit: float = 0.0

    @classmethod
    def since(cls, moment: float) -> "Silence":
        """Return a silence that starts at this moment, when the server responded."""
        return cls(moment, moment, moment)

    def after(self, error: TransportError, moment: float) -> "Silence":
        """Return the silence after another request failed at this moment."""
        if isinstance(error, SilentError):
            return replace(self, met=moment, failed=moment, limit=SILENT_SECONDS)
        return replace(self, failed=moment, limit=max(self.limit, GONE_SECONDS))

    @property
    def is_over(self) -> bool:
        """Whether the follower should give up on the server."""
        return self.failed - self.met >= GONE_SECONDS or self.failed - self.answered >= SILENT_SECONDS


def explain_giving_up(name: str, error: TransportError, *, ours: bool) -> str:
    """Return a sentence that explains why the follower stops, and how the user can follow the job again.

    ours: whether the server was started by `muster up`. The nodes keep running the job's pods while the server is down.
    """
    is_silent = isinstance(error, SilentError)
    lack = "not answered" if is_silent else "been gone"
    seconds = SILENT_SECONDS if is_silent else GONE_SECONDS
    again = "start the cluster again with muster up --detach, then"
    when = again if ours and not is_silent else "once the server answers"
    message = f"gave up on {name}: the server has {lack} for {seconds:g} s"
    return f"{message}; the job continues; {when}: muster logs -f {name} ({error})"
