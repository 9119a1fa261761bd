"""The names of what `muster user add` creates for a user, and the short name by which people know the user.

A user of a cluster is a service account of the namespace `muster-users`, so its name is unique in the cluster.
"""

from typing import Final

from muster.api.ours.unixusers import UNIX_PREFIX

USERS_NAMESPACE: Final = "muster-users"

# The label of all objects of a user. Its value is the user's short name.
USER_LABEL: Final = "muster.dev/user"

# The annotation of the account with the LocalQueue of the user's jobs that name none.
USER_QUEUE_ANNOTATION: Final = "muster.dev/queue"

_ACCOUNTS = "system:serviceaccount:"
_USERS = f"{_ACCOUNTS}{USERS_NAMESPACE}:"


def short_user(name: str) -> str:
    """Return the short name of a user of Muster or of the machine, `ada`, or of another account, `NAMESPACE:NAME`."""
    return name.removeprefix(_USERS).removeprefix(_ACCOUNTS).removeprefix(UNIX_PREFIX)


def is_user(wanted: str, name: str) -> bool:
    """Return whether a user has this name, in its whole or its short form."""
    return wanted in (name, short_user(name))
