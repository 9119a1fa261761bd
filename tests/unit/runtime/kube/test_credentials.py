"""When the vault logs in and what it does with the answers: virtual time, scripted sources."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.kube.credentials import (
    MAX_FILE_BYTES,
    MAX_TOKEN_BYTES,
    ClientCertificate,
    ConfiguredSource,
    Credential,
    CredentialError,
    Vault,
    make_basic_header,
    make_bearer_header,
)
from muster.runtime.kube.kubeconfig import UserConfig

START = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "s3cr3t-t0k3n-that-nobody-may-see"


class ScriptedSource:
    """Gives what the script says, after a delay; repeats the last line."""

    def __init__(
        self,
        *script: str | Exception,
        lifetime: float | None = None,
        max_age: float | None = None,
        renewable: bool = True,
        takes: float = 1.0,
    ) -> None:
        self.script = list(script)
        self.lifetime = lifetime
        self.max_age_seconds = max_age
        self.is_renewable = renewable
        self.takes = takes
        self.logins = 0
        self.clock = VirtualClock(START)

    async def login(self) -> Credential:
        self.logins += 1
        outcome = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        await self.clock.sleep(self.takes)
        if isinstance(outcome, Exception):
            raise outcome
        expires = None if self.lifetime is None else self.clock.now() + timedelta(seconds=self.lifetime)
        return Credential(outcome, expires=expires)


def play(source: ScriptedSource, scenario: Callable[[Vault, VirtualClock], Awaitable[None]]) -> ScriptedSource:
    async def main() -> None:
        vault = Vault(source, source.clock)
        await scenario(vault, source.clock)
        await vault.close()

    run_virtual(main())
    return source


def test_many_waiters_share_one_login() -> None:
    async def scenario(vault: Vault, _: VirtualClock) -> None:
        credentials = await asyncio.gather(*(vault.current() for _ in range(50)))
        assert len({id(credential) for credential in credentials}) == 1

    assert play(ScriptedSource("a"), scenario).logins == 1


def test_many_refusals_of_one_credential_share_one_login() -> None:
    async def scenario(vault: Vault, _: VirtualClock) -> None:
        old = await vault.current()
        fresh = await asyncio.gather(*(vault.refuse(old) for _ in range(50)))
        assert fresh == [Credential("b")] * 50
        assert await vault.refuse(old) == Credential("b")  # a late one: somebody has logged in already

    assert play(ScriptedSource("a", "b"), scenario).logins == 2


def test_a_waiter_that_gives_up_does_not_stop_the_login() -> None:
    async def scenario(vault: Vault, clock: VirtualClock) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await vault.current()
        await clock.sleep(10)
        assert await vault.current() == Credential("a")

    assert play(ScriptedSource("a", takes=5), scenario).logins == 1


def test_all_waiters_hear_of_a_failed_login_and_the_next_one_tries_again() -> None:
    async def scenario(vault: Vault, _: VirtualClock) -> None:
        outcomes = await asyncio.gather(*(vault.current() for _ in range(3)), return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["no luck"] * 3
        assert await vault.current() == Credential("a")

    assert play(ScriptedSource(CredentialError("no luck"), "a"), scenario).logins == 2


def test_closing_stops_a_login_and_its_waiters_hear_why() -> None:
    async def scenario(vault: Vault, clock: VirtualClock) -> None:
        waiter = asyncio.create_task(vault.current())
        await clock.sleep(1)
        await vault.close()
        with pytest.raises(CredentialError, match="the client is closed"):
            await waiter

    play(ScriptedSource("a", takes=5), scenario)


def test_a_credential_is_renewed_ten_seconds_before_it_expires() -> None:
    async def scenario(vault: Vault, clock: VirtualClock) -> None:
        first = await vault.current()
        await clock.sleep(49.9)
        assert await vault.current() is first
        await clock.sleep(0.2)
        assert await vault.current() == Credential("b", expires=clock.now() + timedelta(seconds=60))

    assert play(ScriptedSource("a", "b", lifetime=60), scenario).logins == 2


def test_a_plugin_that_gives_expired_credentials_is_not_run_for_every_request() -> None:
    async def scenario(vault: Vault, clock: VirtualClock) -> None:
        for _ in range(100):
            await vault.current()
            await clock.sleep(0.5)

    assert play(ScriptedSource("a", lifetime=-3600, takes=0), scenario).logins == 5


def test_files_are_read_again_every_minute() -> None:
    async def scenario(vault: Vault, clock: VirtualClock) -> None:
        assert await vault.current() == Credential("a")
        await clock.sleep(59)
        assert await vault.current() == Credential("a")
        await clock.sleep(1)
        assert await vault.current() == Credential("b")

    assert play(ScriptedSource("a", "b", max_age=60, takes=0), scenario).logins == 2


def test_a_refused_credential_is_replaced_at_once() -> None:
    async def scenario(vault: Vault, _: VirtualClock) -> None:
        old = await vault.current()
        assert await vault.refuse(old) == Credential("b")

    assert play(ScriptedSource("a", "b"), scenario).logins == 2


def test_the_same_credential_again_is_no_other_credential() -> None:
    async def scenario(vault: Vault, _: VirtualClock) -> None:
        assert await vault.refuse(await vault.current()) is None

    assert play(ScriptedSource("a"), scenario).logins == 2


def test_a_source_that_keeps_giving_refused_credentials_is_asked_every_ten_seconds_only() -> None:
    async def scenario(vault: Vault, clock: VirtualClock) -> None:
        for _ in range(100):
            await vault.refuse(await vault.current())
            await clock.sleep(0.5)

    # One to begin with, one at once after the first refusal, then one in ten seconds of fifty.
    assert play(ScriptedSource("a", takes=0), scenario).logins == 1 + 1 + 4


def test_once_a_credential_was_accepted_its_refusal_is_news() -> None:
    async def scenario(vault: Vault, _: VirtualClock) -> None:
        for name in "abc":
            credential = await vault.current()
            assert credential == Credential(name)
            vault.accept(credential)
            await vault.refuse(credential)

    assert play(ScriptedSource("a", "b", "c", "d", takes=0), scenario).logins == 4


def test_what_cannot_change_is_not_asked_for_again() -> None:
    async def scenario(vault: Vault, _: VirtualClock) -> None:
        assert await vault.refuse(await vault.current()) is None

    assert play(ScriptedSource("a", "b", renewable=False), scenario).logins == 1


def test_when_a_renewal_fails_the_old_credential_is_used_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(vault: Vault, clock: VirtualClock) -> None:
        first = await vault.current()
        await clock.sleep(51)
        assert await vault.current() is first  # nine seconds are left
        await clock.sleep(10)
        with pytest.raises(CredentialError, match="no luck"):
            await vault.current()

    source = ScriptedSource("a", CredentialError("no luck"), lifetime=60, takes=0)
    with caplog.at_level(logging.WARNING):
        play(source, scenario)
    assert caplog.messages == ["the credential could not be renewed, the old one is used on: no luck"]


def test_a_refused_credential_is_never_used_on() -> None:
    async def scenario(vault: Vault, _: VirtualClock) -> None:
        old = await vault.current()
        with pytest.raises(CredentialError, match="no luck"):
            await vault.refuse(old)
        assert await vault.current() == Credential("b")

    play(ScriptedSource("a", CredentialError("no luck"), "b"), scenario)


# ---- what the kubeconfig itself gives ----


def login(user: UserConfig) -> Credential:
    return asyncio.run(ConfiguredSource(user, "/home/ada/config").login())


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        (UserConfig(), ""),
        (UserConfig(token="abc"), "Bearer abc"),
        (UserConfig(username="ada", password="pass:wörd"), "Basic YWRhOnBhc3M6d8O2cmQ="),
    ],
)
def test_inline_credentials(user: UserConfig, authorization: str) -> None:
    assert login(user) == Credential(authorization)
    assert ConfiguredSource(user).is_renewable is False


def test_files_are_read_at_every_login(tmp_path: Path) -> None:
    token, certificate, key = tmp_path / "token", tmp_path / "crt", tmp_path / "key"
    certificate.write_bytes(b"C")
    key.write_bytes(b"K")
    source = ConfiguredSource(
        UserConfig(token_file=token, client_certificate_file=certificate, client_key_file=key, token="ignored")
    )
    for content in ("one", "two\n"):
        token.write_text(content)
        expected = Credential(f"Bearer {content.strip()}", ClientCertificate(b"C", b"K"))
        assert asyncio.run(source.login()) == expected
    assert (source.is_renewable, source.max_age_seconds) == (True, 60)


def test_a_certificate_may_be_inline_and_its_key_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"K")
    user = UserConfig(client_certificate=b"C", client_key_file=tmp_path / "key")
    assert login(user) == Credential("", ClientCertificate(b"C", b"K"))


def test_an_inline_token_stands_in_for_a_token_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert login(UserConfig(token="abc", token_file=tmp_path / "missing")) == Credential("Bearer abc")


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(CredentialError, match="token: cannot be read: No such file"):
        login(UserConfig(token_file=path))
    path.write_text(" \n")
    with pytest.raises(CredentialError, match="token: the token is empty"):
        login(UserConfig(token_file=path))
    path.write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    with pytest.raises(CredentialError, match="token: is larger than"):
        login(UserConfig(token_file=path))


@pytest.mark.parametrize("token", ["", "a\r\nX-Other: b", "a b", "\x00", "tök", "\ud800", "x" * (MAX_TOKEN_BYTES + 1)])
def test_what_cannot_be_a_header_is_refused_without_being_quoted(token: str) -> None:
    with pytest.raises(CredentialError) as raised:
        make_bearer_header(token + SECRET if token else token, "here")
    assert str(raised.value).startswith("here: the token ")
    assert SECRET not in str(raised.value)


def test_no_secret_shows_in_a_repr() -> None:
    certificate = ClientCertificate(b"C", SECRET.encode())
    held = Credential(make_bearer_header(SECRET, "x"), certificate), Credential(make_basic_header("u", SECRET))
    vault = Vault(ConfiguredSource(UserConfig(token=SECRET)), VirtualClock())
    assert SECRET not in repr((held, vault))
