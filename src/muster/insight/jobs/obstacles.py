"""Explain why a job's ClusterQueue admits nothing. Pure."""

from collections.abc import Mapping

from muster.api.kueue import ClusterQueue
from muster.insight.jobs.state import JobState
from muster.insight.quota.queues import explain_closed


def with_obstacle(state: JobState, queues: Mapping[str, ClusterQueue]) -> JobState:
    """Return the state of a job, with the reason added if its ClusterQueue admits nothing.

    queues: ClusterQueues by name.
    """
    reason = explain_closed(state.reason, queues)
    return state.with_reason(reason) if reason != state.reason else state
