"""Decide when to publish that a gang lacks pods, or lacks its carrier: after the same lack has lasted a second."""

from muster.api.core import Pod
from muster.controllers.scheduler.state import SchedulerState, WaitReason

# A gang that lacks pods for this many seconds is reported.
LACKING_SECONDS = 1.0


def decide_report(state: SchedulerState, key: str, sentence: str, now: float) -> Pod | float | None:
    """Return the pod on which to publish a lack now, the seconds until then, or None if there is nothing to publish.

    sentence: the lack, for users; "" if the gang lacks nothing.
    now: the monotonic time in seconds.
    """
    gang = state.roster.gangs.get(key)
    if not sentence or gang is None or not gang.unbound:
        state.lacking.pop(key, None)
        return None
    last = state.lacking.get(key, WaitReason(now, sentence, ""))
    since = last.since if last.sentence == sentence else now
    if sentence == last.published:
        state.lacking[key] = WaitReason(since, sentence, sentence)
        return None
    if since + LACKING_SECONDS > now:
        state.lacking[key] = WaitReason(since, sentence, last.published)
        return since + LACKING_SECONDS - now
    state.lacking[key] = WaitReason(since, sentence, sentence)
    return next(iter(gang.unbound.values()))
