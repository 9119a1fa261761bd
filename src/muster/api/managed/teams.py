"""Decide which queue the jobs of a user go to, and whether users without a team may run jobs. Pure.

A *team* is a ClusterQueue whose annotation names its users. A *shared* ClusterQueue names no users; its quota is the
capacity of the nodes minus the quotas of the teams that take a part of it.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from muster.api.kueue import ClusterQueue
from muster.api.ours.creation import created_at
from muster.api.ours.teams import FOLLOWS_NODES, QUOTA_OF, WITHOUT_TEAM, read_users


class Team(Struct, frozen=True):
    """A ClusterQueue for named users only. shares: the shared ClusterQueue that gives it quota; "" for none."""

    queue: str
    users: frozenset[str]
    shares: str = ""


def find_teams(queues: Iterable[ClusterQueue]) -> list[Team]:
    """Return the ClusterQueues that name users, as teams, the oldest first."""
    oldest_first = sorted(queues, key=lambda one: (created_at(one.metadata), one.metadata.name))
    return [
        Team(one.metadata.name, users, one.metadata.annotations.get(QUOTA_OF, ""))
        for one in oldest_first
        if (users := read_users(one.metadata.annotations)) is not None
    ]


def list_queues_of(user: str, teams: Iterable[Team]) -> list[str]:
    """Return the ClusterQueues of a user's teams; a job of the user without a queue goes to the first one."""
    return [team.queue for team in teams if user in team.users]


def is_shared(queue: ClusterQueue, teams: Iterable[Team]) -> bool:
    """Return whether a ClusterQueue is shared: it names no users, and follows the nodes or gives teams their quota."""
    annotations = queue.metadata.annotations
    if read_users(annotations) is not None:
        return False
    return annotations.get(FOLLOWS_NODES) == "true" or any(team.shares == queue.metadata.name for team in teams)


def is_open(queue: ClusterQueue, teams: Sequence[Team]) -> bool:
    """Return whether jobs of users without a team may run in a shared ClusterQueue; by default if no team exists."""
    setting = queue.metadata.annotations.get(WITHOUT_TEAM, "")
    return setting == "true" or (setting != "false" and not teams)


def refuse_foreigner(user: str, queue: ClusterQueue) -> str:
    """Return the message that a user may not use a ClusterQueue, and how to change that; "" if the user may."""
    name, users = queue.metadata.name, read_users(queue.metadata.annotations)
    if users is None or user in users:
        return ""
    whose = ", ".join(sorted(users)) or "nobody"
    return f"queue {name} is for {whose}, and not for {user}; {_advise_to_add(user, name)}"


def refuse_work(user: str, target: ClusterQueue | None, queues: Sequence[ClusterQueue], teams: Sequence[Team]) -> str:
    """Return why a user's job may not run in the ClusterQueue of its queue, or without a queue; "" if it may.

    target: the ClusterQueue to which the job's LocalQueue leads; None if the job names no queue.
    queues: all ClusterQueues.
    teams: the teams among them, the oldest first.
    """
    if target is not None and (why := refuse_foreigner(user, target)):
        return why
    if target is not None:
        refused = is_shared(target, teams) and not is_open(target, teams)
    else:
        shared = [one for one in queues if is_shared(one, teams)]
        refused = not any(is_open(one, teams) for one in shared) if shared else bool(teams)
    if not refused:
        return ""
    if own := list_queues_of(user, teams):
        return f"work outside the queues of teams does not run here: use queue {' or '.join(own)}"
    if not teams:
        return "work outside the queues of teams does not run here, and there is no team"
    return f"user {user} is in no team, and other work does not run here; {_advise_to_add(user, teams[0].queue)}"


def _advise_to_add(user: str, queue: str) -> str:
    return f"an administrator may run: muster queue edit {queue} --add-users {user}"
