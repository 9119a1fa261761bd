"""Create a LocalQueue for each team's ClusterQueue, in the namespaces where the team's users work.

A Unix user works in the namespace of that user. Any other user works where a RoleBinding of `muster user add` grants
access. A queue that an administrator deletes is created again only when the team or its users change.
"""

from collections.abc import Iterable

from muster.api.core import NAMESPACE, Namespace
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, ClusterQueue
from muster.api.managed.teams import Team, find_teams
from muster.api.ours.teams import read_users
from muster.api.ours.unixusers import UNIX_USER
from muster.api.ours.users import USER_LABEL
from muster.api.server.rbac import ROLE_BINDING, RoleBinding
from muster.cluster.apiserver.objects.bootstrap import create_missing
from muster.runtime.client import Client
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.refusals import ignoring


def find_namespaces(team: Team, namespaces: Iterable[Namespace], bindings: Iterable[RoleBinding]) -> list[str]:
    """Return the namespaces where the users of a team work, sorted by name."""
    own = {one.metadata.name for one in namespaces if one.metadata.annotations.get(UNIX_USER) in team.users}
    given = {one.metadata.namespace for one in bindings if one.metadata.labels.get(USER_LABEL) in team.users}
    return sorted(own | given)


async def create_team_queue(client: Client, team: Team, namespace: str) -> None:
    """Create the LocalQueue of a team in a namespace, unless a queue of that name exists. Raises `ApiError`."""
    document = {"metadata": {"name": team.queue}, "spec": {"clusterQueue": team.queue}}
    await create_missing(client, LOCAL_QUEUE, document, namespace)


class TeamQueues(Reconciler):
    """The controller that creates each team's LocalQueue in the namespaces where the team's users work.

    A `Manager` runs it; its keys are ClusterQueues.
    """

    name = "team-queues"

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager)
        self._queues = manager.informer(CLUSTER_QUEUE)
        self._namespaces = manager.informer(NAMESPACE)
        self._bindings = manager.informer(ROLE_BINDING)
        self._controller.watch(self._queues, when=_has_other_users)
        self._namespaces.on_change(self._on_namespace_changed)
        self._bindings.on_change(self._on_binding_changed)

    def _on_namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is None and new is not None and UNIX_USER in new.metadata.annotations:
            self._queue_teams()

    def _on_binding_changed(self, old: RoleBinding | None, new: RoleBinding | None) -> None:
        if old is None and new is not None and USER_LABEL in new.metadata.labels:
            self._queue_teams()

    def _queue_teams(self) -> None:
        for team in find_teams(self._queues.all()):
            self._controller.queue.add(team.queue)

    async def _reconcile(self, key: str) -> Result:
        queue = self._queues.get(key)
        if queue is None or queue.metadata.deletion_timestamp is not None:
            return None
        for team in find_teams([queue]):
            for namespace in find_namespaces(team, self._namespaces.all(), self._bindings.all()):
                with ignoring("NotFound", "Forbidden"):  # the namespace is gone, or is being deleted
                    await create_team_queue(self._client, team, namespace)
        return None


def _has_other_users(old: ClusterQueue | None, new: ClusterQueue | None) -> bool:
    """Return whether a change of a team's ClusterQueue changes the team's users, or creates or deletes the queue."""
    if old is None or new is None:
        return True
    return read_users(old.metadata.annotations) != read_users(new.metadata.annotations)
