"""Look up the Unix accounts of this machine, and change files with their rights.

Muster gives each account a private group. No account is a member of it; only processes that Muster starts for the
account are. A directory of the superuser that belongs to this group is open to these processes and to no others, and
not even they can change its mode.
"""

import ctypes
import grp
import os
import pwd
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

# Private groups have the numbers from here on, which systems do not use for their own groups.
FIRST_PRIVATE_GROUP = 1 << 31
_SUPERUSER = 0
_NONE = 0xFFFFFFFF  # as an argument of setfsuid: change nothing

# The number of the system call itself, because the library's function would change all threads of the process.
_SETGROUPS = {"x86_64": 116}.get(os.uname().machine, 159)

_libc = ctypes.CDLL(None, use_errno=True)
for _call in (_libc.setfsuid, _libc.setfsgid):
    _call.argtypes, _call.restype = (ctypes.c_uint32,), ctypes.c_int


class AccountError(Exception):
    """An account that cannot be used. The message says which account, and why."""


class Account(Struct, frozen=True):
    """A Unix account, from the databases of this system. groups: all of its groups, including the primary one."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @property
    def private_group(self) -> int:
        """The account's private group. Only processes that Muster starts for the account are in it."""
        return FIRST_PRIVATE_GROUP + self.uid

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that a login sets."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


def find_account(uid: int) -> Account:
    """Return the account with a user ID.

    Raises `AccountError` if there is none, or the ID can have no private group.
    """
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise AccountError(f"this machine has no user with the id {uid}") from None
    if uid >= FIRST_PRIVATE_GROUP - 2:
        raise AccountError(f"the id {uid} of user {entry.pw_name} is too large for a private group")
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    account = Account(entry.pw_name, uid, entry.pw_gid, groups, entry.pw_dir or "/", entry.pw_shell or "/bin/sh")
    if _name_group(account.private_group) is not None:
        raise AccountError(f"the group {account.private_group} exists, which has to be free for user {account.name}")
    return account


def find_home(uid: int) -> str:
    """Return the home directory of a user; "/" if this machine does not know the user.

    The variable HOME takes precedence for the user of this process.
    """
    own = os.environ.get("HOME", "") if uid == os.geteuid() else ""
    try:
        return own or pwd.getpwuid(uid).pw_dir or "/"
    except KeyError:
        return "/"


def name_groups(account: Account) -> list[str]:
    """Return the names of an account's groups; a group without a name is left out."""
    return [name for group in account.groups if (name := _name_group(group)) is not None]


@contextmanager
def acting_as(account: Account) -> Iterator[None]:
    """Give this thread only the file access of an account inside the `with` block, which must not await.

    The kernel takes the superuser's rights over files away from the thread until the context closes. Raises `OSError`
    if the kernel refuses the change.
    """
    own_groups = os.getgroups()
    try:
        _set_thread_groups([*account.groups, account.private_group])
        _libc.setfsgid(account.gid)
        _libc.setfsuid(account.uid)
        if _libc.setfsuid(_NONE) != account.uid or _libc.setfsgid(_NONE) != account.gid:
            raise PermissionError(f"cannot touch files as user {account.name}")
        yield
    finally:
        _libc.setfsuid(_SUPERUSER)
        _libc.setfsgid(_SUPERUSER)
        _set_thread_groups(own_groups)


def _set_thread_groups(groups: Sequence[int]) -> None:
    """Set the supplementary groups of this thread only. Raises OSError."""
    if _libc.syscall(_SETGROUPS, len(groups), (ctypes.c_uint32 * len(groups))(*groups)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _name_group(group: int) -> str | None:
    try:
        return grp.getgrgid(group).gr_name
    except (KeyError, OverflowError):
        return None
