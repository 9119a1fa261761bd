"""What a Unix user gets at the first contact with a system server."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from msgspec.structs import replace

from muster.api.core import NAMESPACE
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
from muster.api.ours.teams import QUEUE_USERS
from muster.api.server.rbac import ROLE_BINDING
from muster.api.status import ApiError
from muster.cluster.controlplane import control_plane
from muster.cluster.defaultqueue import create_default_queue
from muster.cluster.store import MemoryJournal
from muster.cluster.unixusers import UnixUsers
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.process.accounts import Account, AccountError

ADA = Account("ada", 1000, 1000, (1000,), "/home/ada", "/bin/sh")


def find(uid: int) -> Account:
    if uid == 0:
        return Account("root", 0, 0, (0,), "/root", "/bin/sh")
    if uid != ADA.uid:
        raise AccountError(f"this machine has no user with the id {uid}")
    return ADA


def play(scene: Callable[[Client, UnixUsers], Awaitable[None]]) -> None:
    async def body() -> None:
        async with control_plane(MemoryJournal(), ExternalInputs(RealClock(), Ids(1), Random(1))) as plane:
            client = plane.client()
            await create_default_queue(client, ())
            await scene(client, UnixUsers(client, find))

    asyncio.run(body())


def test_a_user_has_a_namespace_with_rights_and_a_queue() -> None:
    async def scene(client: Client, users: UnixUsers) -> None:
        for _ in range(2):
            assert (await users.user_of(1000)).name == "unix:ada"
        annotations = (await client.get(NAMESPACE, "user-ada")).metadata.annotations
        assert annotations["muster.dev/unix-user"] == "ada"
        assert annotations["muster.dev/unix-uid"] == "1000"
        binding = await client.get(ROLE_BINDING, "muster:unix-user", "user-ada")
        assert (binding.role_ref.name, [each.name for each in binding.subjects]) == ("admin", ["unix:ada"])
        assert (await client.get(LOCAL_QUEUE, "default", "user-ada")).spec.cluster_queue == "muster-default"

    play(scene)


def test_several_first_contacts_at_once_are_one() -> None:
    async def scene(client: Client, users: UnixUsers) -> None:
        found = await asyncio.gather(*(users.user_of(1000) for _ in range(5)))
        assert {user.name for user in found} == {"unix:ada"}

    play(scene)


def test_connections_at_once_share_one_lookup_and_later_ones_meet_new_groups() -> None:
    accounts: list[Account] = []

    def find_and_count(uid: int) -> Account:
        accounts.append(replace(ADA, groups=(len(accounts),)))
        return accounts[-1]

    async def scene(client: Client, users: UnixUsers) -> None:
        users = UnixUsers(client, find_and_count)
        first, *others = [asyncio.create_task(users.user_of(1000)) for _ in range(1000)]
        await asyncio.sleep(0)
        first.cancel()  # the client hangs up, which is nothing to the others
        before = {user.groups for user in await asyncio.gather(*others)}
        assert (len(accounts), len(before)) == (1, 1)
        assert (await users.user_of(1000)).groups not in before

    play(scene)


def test_a_refusal_is_shared_and_not_kept() -> None:
    async def scene(client: Client, users: UnixUsers) -> None:
        for _ in range(2):
            refused = await asyncio.gather(*(users.user_of(7) for _ in range(5)), return_exceptions=True)
            assert [error.code for error in refused if isinstance(error, ApiError)] == [403] * 5

    play(scene)


def test_what_root_takes_away_stays_away() -> None:
    async def scene(client: Client, users: UnixUsers) -> None:
        await users.user_of(1000)
        await client.delete(LOCAL_QUEUE, "default", "user-ada")
        await client.delete(ROLE_BINDING, "muster:unix-user", "user-ada")
        await users.user_of(1000)
        assert await client.find(LOCAL_QUEUE, "default", "user-ada") is None
        assert await client.find(ROLE_BINDING, "muster:unix-user", "user-ada") is not None  # a user can delete it, too

    play(scene)


def test_root_may_do_everything_and_has_no_namespace() -> None:
    async def scene(client: Client, users: UnixUsers) -> None:
        before = {each.metadata.name for each in (await client.list(NAMESPACE)).items}
        assert "system:masters" in (await users.user_of(0)).groups
        assert {each.metadata.name for each in (await client.list(NAMESPACE)).items} == before

    play(scene)


@pytest.mark.parametrize(
    ("uid", "why"), [(65534, "cannot be told from users whom this machine cannot name"), (7, "no user with the id 7")]
)
def test_who_has_no_account_is_refused(uid: int, why: str) -> None:
    async def scene(client: Client, users: UnixUsers) -> None:
        with pytest.raises(ApiError, match=why) as error:
            await users.user_of(uid)
        assert error.value.code == 403

    play(scene)


@pytest.mark.parametrize("marks", [{}, {"muster.dev/unix-user": "ada", "muster.dev/unix-uid": "999"}])
def test_a_namespace_that_is_not_the_users_is_left_alone(marks: dict[str, str]) -> None:
    async def scene(client: Client, users: UnixUsers) -> None:
        document = {"metadata": {"name": "user-ada", "annotations": marks}}
        await client.create(NAMESPACE.seen_as(dict), document)
        with pytest.raises(ApiError, match="namespace user-ada belongs to"):
            await users.user_of(1000)
        assert await client.find(ROLE_BINDING, "muster:unix-user", "user-ada") is None
        kept = msgspec.to_builtins((await client.get(NAMESPACE, "user-ada")).metadata.annotations)
        assert kept == marks

    play(scene)


def test_a_user_of_a_team_has_its_queue_from_the_first_contact() -> None:
    async def scene(client: Client, users: UnixUsers) -> None:
        for name, members in (("vision", "ada,bob"), ("speech", "bob")):
            meta = {"name": name, "annotations": {QUEUE_USERS: members}}
            await client.create(CLUSTER_QUEUE.seen_as(dict), {"metadata": meta, "spec": {}})
        await users.user_of(1000)
        queues = {one.metadata.name for one in (await client.list(LOCAL_QUEUE, "user-ada")).items}
        assert queues == {"default", "vision"}

    play(scene)
