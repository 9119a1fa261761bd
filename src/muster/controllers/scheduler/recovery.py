"""Decide when a broken gang gives back its nodes, because it finds no room for the pods that it lost.

If the lost pods are not placed in time, all pods of the gang are evicted, and their controllers recreate them. A gang
with pods that no controller recreates keeps its nodes. So does a gang with a queue, if the queue evicts it in time
(`waitForPodsReady.recoveryTimeout`). The time is measured by the monotonic clock, and starts again when the scheduler
restarts. The time of day is only shown to users.
"""

from datetime import datetime, timedelta

from muster.api.kueue.names import CLUSTER_QUEUE_NAME_LABEL, LOCAL_QUEUE_NAME_LABEL, QUEUE_NAME_LABEL
from muster.api.values import durations
from muster.controllers.scheduler.ask import GangTurn
from muster.controllers.scheduler.binding import are_recreated
from muster.controllers.scheduler.state import SchedulerState
from muster.gang.order.recovery import gives_back_at

_QUEUE_LABELS = (QUEUE_NAME_LABEL, LOCAL_QUEUE_NAME_LABEL, CLUSTER_QUEUE_NAME_LABEL)


def decide_give_back(state: SchedulerState, ask: GangTurn, now: float, time: datetime) -> tuple[str, str]:
    """Choose all running pods of a broken gang for eviction, if the gang has waited for room long enough.

    Return the sentence on when the gang will give its nodes back, and the reason if it gives them back now; each may be
    "".

    now: the monotonic time in seconds.
    time: the time of day.
    """
    timeout = state.rules.recovery_timeout / durations.SECOND
    since, moment = state.broken.setdefault(ask.key, (now, time + timedelta(seconds=timeout)))
    at = gives_back_at(since, timeout)
    if at is None or _is_left_alone(state, ask):
        return "", ""
    message = ""
    if now < at:
        state.agenda.gang_after(ask.key, at - now, ask.gang.priority)
    elif not state.pending.is_nominated(ask.key):
        lost, limit = len(ask.turn.pods), durations.format(state.rules.recovery_timeout)
        message = f"The gang found no room for {lost} of its pods within {limit}, and gives its nodes back"
        for pod in state.roster.gangs[ask.key].bound.values():
            state.displaced.choose(ask.key, pod, "", message)
        state.agenda.evict()
    return f" It gives all its nodes back at {moment:%Y-%m-%dT%H:%M:%SZ}, unless it is whole by then.", message


def _is_left_alone(state: SchedulerState, ask: GangTurn) -> bool:
    metas = [pod.metadata for pod in ask.turn.pods[:1]] + ([ask.carrier.meta] if ask.carrier is not None else [])
    queued = any(label in meta.labels for meta in metas for label in _QUEUE_LABELS)
    return (queued and state.rules.queues_recover) or not are_recreated(ask.gang.bound.values())
