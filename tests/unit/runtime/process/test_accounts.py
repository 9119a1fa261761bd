"""Unix accounts, and what this process may do in their name."""

import os
import pwd
import threading
from pathlib import Path

import pytest

from muster.runtime.process.accounts import (
    FIRST_PRIVATE_GROUP,
    Account,
    AccountError,
    acting_as,
    find_account,
    find_home,
)

NOBODY = Account("nobody", 65534, 65534, (65534,), "/", "/bin/sh")


def test_an_account_is_what_the_system_says() -> None:
    entry = pwd.getpwuid(os.getuid())
    account = find_account(os.getuid())
    assert (account.name, account.gid, account.home) == (entry.pw_name, entry.pw_gid, entry.pw_dir)
    assert account.variables["USER"] == entry.pw_name
    assert account.private_group == FIRST_PRIVATE_GROUP + os.getuid()


def test_an_unknown_id_is_no_account() -> None:
    with pytest.raises(AccountError, match="no user with the id 4000000"):
        find_account(4_000_000)


def test_only_the_home_of_this_process_comes_from_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/set")
    assert (find_home(os.geteuid()), find_home(4_000_000)) == ("/set", "/")
    monkeypatch.delenv("HOME")
    assert find_home(os.geteuid()) == pwd.getpwuid(os.geteuid()).pw_dir


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser acts for others")
def test_the_superuser_acts_for_an_account_in_one_thread_only(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o640)  # nor does the superuser's group count
    tmp_path.chmod(0o777)
    groups = os.getgroups()
    inside, over, read_beside = threading.Event(), threading.Event(), list[str]()

    def read() -> None:
        inside.wait()
        read_beside.append(secret.read_text())
        over.set()

    beside = threading.Thread(target=read)
    beside.start()
    with acting_as(NOBODY):
        inside.set()
        over.wait()
        with pytest.raises(PermissionError):
            secret.read_text()
        with pytest.raises(PermissionError):
            secret.chmod(0o644)
    beside.join()
    assert read_beside == ["x"]
    assert secret.read_text() == "x"
    assert os.getgroups() == groups
