"""Map the Unix users of the machine to users of the API, and give each a namespace on first contact.

In this namespace a user gets the rights of the role `admin`, the rights to hold and cancel jobs, and a LocalQueue. All
users may read shared objects: nodes and queues. The superuser may do everything. The annotations of a namespace name
its owner; `tenancy` reads them.
"""

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec

from muster.api.core import NAMESPACE, Namespace
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
from muster.api.managed.teams import find_teams
from muster.api.meta import ObjectMeta
from muster.api.ours.unixusers import SHARED_ROLE, UNIX_UID, UNIX_USER, group_name_of, namespace_of, user_name_of
from muster.api.ours.users import WORK_ROLE, WORK_RULES
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING, ClusterRole, PolicyRule
from muster.api.server.rbac import GROUP as RBAC
from muster.api.status import forbidden
from muster.cluster.apiserver.identity.users import AUTHENTICATED, MASTERS, User
from muster.cluster.apiserver.objects.bootstrap import create_missing
from muster.cluster.controllers.access.teamqueues import create_team_queue
from muster.cluster.defaultqueue import LOCAL_QUEUE_NAME
from muster.cluster.defaultqueue import NAMESPACE as DEFAULT_NAMESPACE
from muster.runtime.client import Client
from muster.runtime.process.accounts import Account, AccountError, find_account, name_groups

# The group of all Unix users.
UNIX_USERS = "unix-users"
_BINDING = "muster:unix-user"
_WORK_BINDING = "muster:unix-user:work"
# The annotation of a namespace whose initial objects exist. If the superuser removes one later, it is not created
# again.
_FURNISHED = "muster.dev/unix-user-furnished"
_OVERFLOW_UID = 65534  # the kernel's id of any user whom it cannot name

_SHARED = (
    PolicyRule(verbs=("get", "list", "watch"), api_groups=("",), resources=("nodes",)),
    PolicyRule(
        verbs=("get", "list", "watch"),
        api_groups=("kueue.x-k8s.io",),
        resources=("clusterqueues", "cohorts", "resourceflavors", "topologies", "workloadpriorityclasses"),
    ),
    PolicyRule(verbs=("get", "list", "watch"), api_groups=("scheduling.k8s.io",), resources=("priorityclasses",)),
)


class UnixUsers:
    """The Unix users of the machine, as users of the cluster.

    client: acts for the server itself.
    find: looks up the Unix account of a user ID.
    """

    def __init__(self, client: Client, find: Callable[[int], Account] = find_account) -> None:
        self._client = client
        self._find = find
        self._finding: dict[int, asyncio.Task[User]] = {}  # by uid

    async def share(self) -> None:
        """Create the roles by which users read shared objects, and hold and cancel their own jobs.

        Raises `ApiError`.
        """
        for name, rules in ((SHARED_ROLE, _SHARED), (WORK_ROLE, WORK_RULES)):
            role = ClusterRole(metadata=ObjectMeta(name=name), rules=rules)
            await create_missing(self._client, CLUSTER_ROLE, msgspec.to_builtins(role))
        subject = {"kind": "Group", "apiGroup": RBAC, "name": UNIX_USERS}
        await create_missing(self._client, CLUSTER_ROLE_BINDING, _bind(SHARED_ROLE, SHARED_ROLE, subject))

    async def user_of(self, uid: int) -> User:
        """Return the cluster's user for a Unix user ID, and create the user's namespace if it is missing.

        Raises `ApiError`. Connections that arrive during a lookup share its result, so a user with a thousand
        connections does not delay others. The result is not cached after that, so the next connection sees changed
        groups.
        """
        finding = self._finding.get(uid)
        if finding is None:
            finding = self._finding[uid] = asyncio.create_task(self._find_user(uid))
            finding.add_done_callback(partial(self._forget, uid))
        return await asyncio.shield(finding)  # a cancelled caller must not cancel the others

    def _forget(self, uid: int, finding: asyncio.Task[User]) -> None:
        del self._finding[uid]
        if not finding.cancelled():
            finding.exception()  # all callers may be gone, and asyncio would report an error that nobody has seen

    async def _find_user(self, uid: int) -> User:
        try:
            account, groups = await asyncio.to_thread(self._look_up, uid)
        except AccountError as error:
            raise forbidden(str(error)) from None
        name = user_name_of(account.name)
        if uid == 0:
            return User(name, frozenset({MASTERS, AUTHENTICATED}), str(uid))
        await self._create_namespace_objects(account)
        names = map(group_name_of, groups)
        return User(name, frozenset({UNIX_USERS, AUTHENTICATED, *names}), str(uid))

    def _look_up(self, uid: int) -> tuple[Account, list[str]]:
        if uid == _OVERFLOW_UID:
            raise AccountError(f"the user with the id {uid} cannot be told from users whom this machine cannot name")
        account = self._find(uid)
        return account, name_groups(account)

    async def _create_namespace_objects(self, account: Account) -> None:
        """Create the user's namespace and its initial objects, unless that was done before. Raises `ApiError`."""
        name = namespace_of(account.name, account.uid)
        marks = {UNIX_USER: account.name, UNIX_UID: str(account.uid)}
        await create_missing(self._client, NAMESPACE, {"metadata": {"name": name, "annotations": marks}})
        namespace = await self._client.get(NAMESPACE, name)
        _require_owner(namespace, marks)
        subject = {"kind": "User", "apiGroup": RBAC, "name": user_name_of(account.name)}
        for binding, role in ((_BINDING, "admin"), (_WORK_BINDING, WORK_ROLE)):
            await create_missing(self._client, ROLE_BINDING, _bind(binding, role, subject), name)
        if _FURNISHED not in namespace.metadata.annotations:
            await self._create_queue(name)
            for team in find_teams((await self._client.list(CLUSTER_QUEUE)).items):
                if account.name in team.users:  # before the first job, which the controller might not be
                    await create_team_queue(self._client, team, name)
            await self._client.patch(NAMESPACE, name, {"metadata": {"annotations": {_FURNISHED: "true"}}})

    async def _create_queue(self, namespace: str) -> None:
        """Create a LocalQueue with the ClusterQueue of the LocalQueue in namespace `default`, if that exists."""
        model = await self._client.find(LOCAL_QUEUE, LOCAL_QUEUE_NAME, DEFAULT_NAMESPACE)
        if model is not None:
            spec = {"clusterQueue": model.spec.cluster_queue}
            document = {"metadata": {"name": LOCAL_QUEUE_NAME}, "spec": spec}
            await create_missing(self._client, LOCAL_QUEUE, document, namespace)


def _require_owner(namespace: Namespace, marks: dict[str, str]) -> None:
    """Raise `ApiError` (403) unless the namespace's annotations contain `marks`, which name the user."""
    annotations = namespace.metadata.annotations
    if any(annotations.get(key) != value for key, value in marks.items()):
        owner = annotations.get(UNIX_USER)
        whose = f"user {owner} with the id {annotations.get(UNIX_UID)}" if owner else "no Unix user"
        raise forbidden(
            f"namespace {namespace.metadata.name} belongs to {whose}, and not to user {marks[UNIX_USER]} with the id "
            f"{marks[UNIX_UID]}: the superuser has to delete it"
        )


def _bind(name: str, role: str, subject: dict[str, str]) -> dict[str, object]:
    reference = {"kind": "ClusterRole", "apiGroup": RBAC, "name": role}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
