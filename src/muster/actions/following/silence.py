"""Decide how long a follower waits for a server that does not answer: `Silence`."""

from msgspec import Struct
from msgspec.structs import replace

from muster.runtime.transport import SilentError, TransportError

# A follower soon gives up a server whose process is gone. A server that only does not answer in time may come
# back later: its machine is short of memory, its process stopped, or the network away.
GONE_SECONDS = 30.0
SILENT_SECONDS = 600.0


class Silence(Struct, frozen=True):
    """The time for which a server has not answered.

    answered: when it answered last.
    met: when a request last reached a server, whether or not the server answered.
    failed: when the last request failed; equal to `met` if the request reached a server.
    limit: how long the follower tries, in seconds: the longest limit since the last answer, 0 before the first failure.
    """

    answered: float
    met: float
    failed: float
    limit: float = 0.0

    @classmethod
    def since(cls, moment: float) -> "Silence":
        """Return the silence that begins with an answer at this moment."""
        return cls(moment, moment, moment)

    def after(self, error: TransportError, moment: float) -> "Silence":
        """Return the silence after another request has failed at this moment."""
        if isinstance(error, SilentError):
            return replace(self, met=moment, failed=moment, limit=SILENT_SECONDS)
        return replace(self, failed=moment, limit=max(self.limit, GONE_SECONDS))

    @property
    def is_over(self) -> bool:
        """Whether the follower should stop trying to reach the server."""
        return self.failed - self.met >= GONE_SECONDS or self.failed - self.answered >= SILENT_SECONDS


def explain_giving_up(name: str, error: TransportError, *, ours: bool) -> str:
    """Return a sentence on why the follower of a job stops, and how the user can follow the job again.

    ours: whether the server was started by `muster up`. Without a server, the nodes keep running the pods of a job.
    """
    is_silent = isinstance(error, SilentError)
    lack = "not answered" if is_silent else "been gone"
    seconds = SILENT_SECONDS if is_silent else GONE_SECONDS
    again = "start the cluster again with muster up --detach, then"
    when = again if ours and not is_silent else "once the server answers"
    message = f"gave up on {name}: the server has {lack} for {seconds:g} s"
    return f"{message}; the job goes on; {when}: muster logs -f {name} ({error})"
