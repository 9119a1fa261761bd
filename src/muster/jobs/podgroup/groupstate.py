"""Decide the state of a group: whether enough of its pods have a node, and if not, why.

The rules are the same for all dialects.
"""

from enum import StrEnum

from msgspec import Struct

from muster.api.podgroups.names import NOT_ENOUGH_RESOURCES, NOT_ENOUGH_TASKS
from muster.jobs.podgroup.census import Census
from muster.jobs.podgroup.record import PodGroup


class Stage(StrEnum):
    """The stage of a group's life."""

    EMPTY = "empty"  # the group has no pods
    WAITING = "waiting"  # not enough pods have a node yet
    READY = "ready"  # enough pods have a node, or have succeeded
    BROKEN = "broken"  # some pods run, but fewer than the minimum remain unless new ones are created
    DONE = "done"  # enough pods have succeeded, and none is left


class GroupState(Struct, frozen=True):
    """The state of a group.

    reason, message: why it cannot be scheduled; "" if nothing prevents it.
    """

    stage: Stage
    census: Census
    reason: str = ""
    message: str = ""


def find_state(group: PodGroup, census: Census) -> GroupState:
    """Return the stage of a group, and why it cannot be scheduled if something prevents it.

    census: how many pods of the group are in each state.
    """
    least, placed = group.min_members, census.admitted + census.succeeded
    if not census.members:
        return GroupState(Stage.EMPTY, census)
    if census.running and census.members < least:
        message = (
            f"{census.running} running, {census.pending + census.admitted - census.running} pending and "
            f"{census.succeeded} succeeded pods are fewer than the {least} that must run"
        )
        return GroupState(Stage.BROKEN, census, NOT_ENOUGH_TASKS, message)
    if placed >= least and not census.pending:
        is_done = census.succeeded and not census.admitted
        return GroupState(Stage.DONE if is_done else Stage.READY, census)
    if placed >= max(least, 1):
        return GroupState(Stage.READY, census)
    if census.members < least:
        lost = f"; {group.taken_back}" if group.taken_back else ""
        return GroupState(Stage.WAITING, census, NOT_ENOUGH_TASKS, f"{census.members} of {least} pods exist{lost}")
    return GroupState(Stage.WAITING, census, NOT_ENOUGH_RESOURCES if census.told else "", census.told)
