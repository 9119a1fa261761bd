"""Name the Unix users of a machine in the API of its system server: their user names and their namespaces. Pure.

A system server (`muster up --system`) gives each Unix user a namespace, and runs the pods there as that user. The
annotations of the namespace say which user that is. Only members of `system:masters` can write them.
"""

import re
from typing import Final

# The socket by which a system server serves the users of its machine.
SYSTEM_SOCKET: Final = "/run/muster/muster.sock"
# The socket of a server for its own user, in its home.
HOME_SOCKET: Final = "server.sock"

# The annotations of a namespace with the Unix user of its pods. Both must match, because ids and names are used again.
UNIX_USER: Final = "muster.dev/unix-user"
UNIX_UID: Final = "muster.dev/unix-uid"

# What precedes the account in the user name of the API.
UNIX_PREFIX: Final = "unix:"

# The ClusterRole by which all Unix users read what they share. Only a system server has it.
SHARED_ROLE: Final = "muster:unix-users"

ROOT_NAMESPACE: Final = "default"
_SAFE_NAME = r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?"


def user_name_of(account: str) -> str:
    """Return the user name in the API of a Unix user."""
    return f"{UNIX_PREFIX}{account}"


def group_name_of(group: str) -> str:
    """Return the group name in the API of a Unix group."""
    return f"unix-group:{group}"


def namespace_of(account: str, uid: int) -> str:
    """Return the namespace of a Unix user: `default` for root, else `user-NAME`; `uid-UID` if the name does not fit."""
    if uid == 0:
        return ROOT_NAMESPACE
    return f"user-{account}" if re.fullmatch(_SAFE_NAME, account) else f"uid-{uid}"
