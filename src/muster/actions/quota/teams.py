"""Divide the quota of the nodes among teams, and maintain the lists of their users.

A team is a ClusterQueue with a part of the quota of the *whole*, which is the ClusterQueue whose quota follows the
nodes. The part is subtracted from the whole's quota, and all of them lend each other unused quota.
"""

import os
import pwd
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from muster.actions.errors import UserError
from muster.actions.server.session import Session
from muster.api.core import NAMESPACE, NODE, SERVICE_ACCOUNT
from muster.api.kueue import ANY, CLUSTER_QUEUE, LOCAL_QUEUE, NEVER, RESOURCE_FLAVOR, ClusterQueue
from muster.api.managed.teams import find_teams, is_open, is_shared, list_queues_of
from muster.api.ours.teams import FOLLOWS_NODES, QUEUE_USERS, QUOTA_OF, read_users, write_users
from muster.api.ours.unixusers import SHARED_ROLE, UNIX_USER
from muster.api.ours.users import USER_LABEL, USER_QUEUE_ANNOTATION, USERS_NAMESPACE
from muster.api.server.rbac import CLUSTER_ROLE, ROLE_BINDING
from muster.api.values.quantity import parse_amount
from muster.insight.nearest import find_nearest
from muster.insight.reader.engine import is_embedded
from muster.insight.reader.listing.access import list_or_none
from muster.insight.text import format_quantity
from muster.queueing.quota.nodes import follow_nodes, is_following_nodes
from muster.runtime.client import Client

# The Cohort in which teams lend each other unused quota, unless the whole ClusterQueue is in another Cohort.
TEAMS_COHORT = "muster-teams"


@dataclass(frozen=True, slots=True)
class Division:
    """The quota that teams divide: the ClusterQueue whose quota follows the nodes, and all other ClusterQueues.

    left: the quota that no team has, by resource.
    """

    whole: ClusterQueue
    queues: Sequence[ClusterQueue]
    left: Mapping[str, int]

    @property
    def cohort(self) -> str:
        """The Cohort of the teams: the Cohort of the whole ClusterQueue, or a default name if it has none."""
        return self.whole.spec.cohort_name or TEAMS_COHORT

    @property
    def flavor(self) -> str:
        """The ResourceFlavor of the quota that teams divide."""
        return self.whole.spec.resource_groups[0].flavors[0].name

    @property
    def parts(self) -> list[ClusterQueue]:
        """The ClusterQueues of the teams that have a part of the divided quota."""
        return [one for one in self.queues if one.metadata.annotations.get(QUOTA_OF) == self.whole.metadata.name]

    def without(self, name: str) -> "Division":
        """Return the division without a team, whose quota counts as undivided."""
        left = dict(self.left)
        for part in self.parts:
            if part.metadata.name == name:
                for resource, given in read_quotas(part).items():
                    left[resource] = left.get(resource, 0) + given
        return replace(self, left=left, queues=[one for one in self.queues if one.metadata.name != name])


def read_quotas(queue: ClusterQueue) -> dict[str, int]:
    """Return the nominal quota of a ClusterQueue by resource, summed over all flavors."""
    quotas: dict[str, int] = {}
    for group in queue.spec.resource_groups:
        for flavor in group.flavors:
            for quota in flavor.resources:
                quotas[quota.name] = quotas.get(quota.name, 0) + parse_amount(quota.name, quota.nominal_quota)
    return quotas


async def find_division(client: Client) -> Division:
    """Return the quota that teams can divide.

    Raises `ApiError`, and `UserError` if no ClusterQueue follows the nodes.
    """
    queues = (await client.list(CLUSTER_QUEUE)).items
    whole = next((one for one in queues if is_following_nodes(one)), None)
    if whole is None:
        raise UserError(
            "no queue has what the nodes have, so there is nothing to divide: make queues with --cpus and --gpus "
            f"alone, or let a queue follow the nodes again: kubectl annotate clusterqueue NAME {FOLLOWS_NODES}=true"
        )
    flavors = {one.metadata.name: one for one in (await client.list(RESOURCE_FLAVOR)).items}
    now = follow_nodes(whole, flavors, (await client.list(NODE)).items, queues)  # its own quota follows a moment later
    return Division(now, queues, read_quotas(now))


def check_parts(division: Division) -> None:
    """Raise `UserError` if teams have parts of the quota that follows the nodes, because it cannot be edited then."""
    name, parts = division.whole.metadata.name, [one.metadata.name for one in division.parts]
    if parts:
        raise UserError(
            f"{name} has what the nodes have, less the parts of teams ({', '.join(parts)}): change those instead, "
            f"or delete them first (muster queue delete {parts[0]})"
        )


def check_division(division: Division, name: str, quantities: Mapping[str, str]) -> None:
    """Raise `UserError` if a team would get more quota than is undivided.

    quantities: the team's new quota by resource.
    """
    lines = []
    for resource, quantity in quantities.items():
        left = division.left.get(resource, 0)
        if parse_amount(resource, quantity) <= left:
            continue
        have = [
            f"{part.metadata.name} has {format_quantity(resource, given)}{_describe_leaving(part)}"
            for part in division.parts
            if (given := read_quotas(part).get(resource, 0))
        ]
        others = f" ({', '.join(have)})" if have else ""
        lines.append(f"{quantity} {resource}, and {format_quantity(resource, max(0, left))} is left{others}")
    if lines:
        raise UserError(f"{name} cannot get {'; nor '.join(lines)}; give less, or take it from another queue first")


def _describe_leaving(part: ClusterQueue) -> str:
    return " until its jobs end" if part.metadata.deletion_timestamp is not None else ""


async def open_cohort(client: Client, division: Division, *, dry_run: bool = False) -> None:
    """Let the whole ClusterQueue lend quota to the teams and reclaim it, unless it is in a Cohort already.

    Raises `ApiError`.
    """
    spec = division.whole.spec
    change = {} if spec.cohort_name else {"cohortName": division.cohort}
    reclaim = {} if spec.preemption.reclaim_within_cohort != NEVER else {"preemption": {"reclaimWithinCohort": ANY}}
    if change:
        await client.patch(CLUSTER_QUEUE, division.whole.metadata.name, {"spec": change | reclaim}, dry_run=dry_run)


async def require_known_submitters(client: Client) -> None:
    """Raise `UserError` if the cluster does not verify the names of submitters."""
    if not await is_embedded(client):
        raise UserError(
            "this cluster does not know who submits a job, so it can neither keep users out of a queue nor count what "
            "each has; use namespaces and ResourceQuotas, and --weight, which counts once the engine's Configuration "
            "has fairSharing"
        )


async def check_users(session: Session, users: Collection[str]) -> None:
    """Raise `UserError` if the cluster does not know one of these users; the message suggests similar names.

    Raises `ApiError`.
    """
    if not users:
        return
    accounts = {one.metadata.name for one in (await session.client.list(SERVICE_ACCOUNT, USERS_NAMESPACE)).items}
    all_accounts = accounts | {pwd.getpwuid(os.getuid()).pw_name}
    serves_all = session.is_local and await session.client.find(CLUSTER_ROLE, SHARED_ROLE) is not None
    unknown = [one for one in users if one not in all_accounts and not (serves_all and _is_unix_user(one))]
    if unknown:
        candidates = sorted(all_accounts | ({one.pw_name for one in pwd.getpwall()} if serves_all else set()))
        similar = find_nearest(unknown[0], candidates)
        hint = f"did you mean {similar}?" if similar else f"add one with: muster user add {unknown[0]}"
        raise UserError(f"there is no user {', '.join(unknown)}; {hint}")


def _is_unix_user(name: str) -> bool:
    with suppress(KeyError):
        return bool(pwd.getpwnam(name))
    return False


def describe_users(name: str, users: Iterable[str], queues: Iterable[ClusterQueue]) -> list[str]:
    """Return sentences that tell to which queue the jobs of a team's users go if they name no queue.

    name: the name of the team's queue.
    queues: all ClusterQueues, including the team's queue.
    """
    teams = find_teams(queues)
    lines, here = [], []
    for user in sorted(users):
        first = next(iter(list_queues_of(user, teams)), name)
        if first == name:
            here.append(user)
        else:
            lines.append(
                f"{user} is in {first}, too: jobs that name no queue go to {first}; use --queue {name}, or run: "
                f"muster user queue {user} {name}"
            )
    return ([f"jobs of {', '.join(here)} that name no queue go to {name}"] if here else []) + lines


def describe_rest(division: Division, queues: Sequence[ClusterQueue]) -> str:
    """Return a sentence that tells who may use the quota that no team has.

    queues: all ClusterQueues, including the new team's queue.
    """
    teams, name = find_teams(queues), division.whole.metadata.name
    if not is_shared(division.whole, teams) or is_open(division.whole, teams):
        return f"everybody may run jobs in {name}, which has what no team was given"
    return (
        f"only teams run jobs now, and they borrow what {name} has left; to let others run there: "
        f"muster queue edit {name} --without-team"
    )


async def join_team(session: Session, local_queue: str, user: str) -> None:
    """Add a user to the team that a LocalQueue in the session's namespace belongs to, if it belongs to a team.

    Raises `ApiError`.
    """
    client = session.client
    local = await client.find(LOCAL_QUEUE, local_queue, session.namespace)
    queue = await client.find(CLUSTER_QUEUE, local.spec.cluster_queue) if local is not None else None
    if queue is not None:
        await _change_users(client, queue, add={user})


async def leave_teams(client: Client, user: str) -> None:
    """Remove a user from all teams, because a later user of the same name is another person. Raises `ApiError`."""
    for queue in await list_or_none(client, CLUSTER_QUEUE) or ():
        await _change_users(client, queue, remove={user})


async def _change_users(
    client: Client, queue: ClusterQueue, *, add: Collection[str] = (), remove: Collection[str] = ()
) -> None:
    users = read_users(queue.metadata.annotations)
    if users is None or (after := users.union(add).difference(remove)) == users:
        return
    change = {"resourceVersion": queue.metadata.resource_version, "annotations": {QUEUE_USERS: write_users(after)}}
    await client.patch(CLUSTER_QUEUE, queue.metadata.name, {"metadata": change})


async def choose_queue(client: Client, user: str, queue: str) -> None:
    """Set the default queue of a user's jobs. "" selects the queue of the oldest team that has the user.

    Raises `ApiError`, and `UserError` if the user does not exist, or the user's namespaces have no such queue.
    """
    change = {"metadata": {"annotations": {USER_QUEUE_ANNOTATION: queue or None}}}
    account = await client.find(SERVICE_ACCOUNT, user, USERS_NAMESPACE)
    if account is not None:
        bindings = (await client.list(ROLE_BINDING, labels=f"{USER_LABEL}={user}")).items
        await _require_queue(client, {one.metadata.namespace for one in bindings}, queue)
        await client.patch(SERVICE_ACCOUNT, user, change, USERS_NAMESPACE)
        return
    namespaces = [
        one.metadata.name
        for one in (await client.list(NAMESPACE)).items
        if one.metadata.annotations.get(UNIX_USER) == user
    ]
    if not namespaces:
        raise UserError(f"there is no user {user}, or the user has not used this cluster yet")
    await _require_queue(client, namespaces, queue)
    for namespace in namespaces:
        await client.patch(NAMESPACE, namespace, change)


async def _require_queue(client: Client, namespaces: Collection[str], queue: str) -> None:
    """Raise `UserError` if no LocalQueue in the namespaces has this name; "" is always accepted."""
    queues = [one for one in (await client.list(LOCAL_QUEUE)).items if one.metadata.namespace in namespaces]
    if queue and queue not in {one.metadata.name for one in queues}:
        names = ", ".join(sorted({one.metadata.name for one in queues})) or "none"
        raise UserError(f"no queue {queue} where the user works; there is: {names}")
