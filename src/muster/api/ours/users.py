"""The names of a cluster user's objects: the account, its labels and its roles, and the user's short name.

A user of a cluster is a service account of the namespace `muster-users`, so its name is unique in the cluster.
"""

from typing import Final

from muster.api.batch import JOB
from muster.api.jobset import JOB_SET
from muster.api.kueue import WORKLOAD
from muster.api.ours.unixusers import UNIX_PREFIX
from muster.api.server.rbac import PolicyRule

USERS_NAMESPACE: Final = "muster-users"

# The label of all objects of a user. Its value is the user's short name.
USER_LABEL: Final = "muster.dev/user"

# The annotation of the account with the LocalQueue of the user's jobs that name none.
USER_QUEUE_ANNOTATION: Final = "muster.dev/queue"

# The ClusterRole with the rights that `muster cancel` and `muster hold` need in addition to the rights of `edit`.
WORK_ROLE: Final = "muster:users:work"
_CHANGE: Final = ("patch", "update")
WORK_RULES: Final = (
    PolicyRule(verbs=_CHANGE, api_groups=(JOB.group,), resources=(f"{JOB.plural}/status",)),
    PolicyRule(verbs=_CHANGE, api_groups=(JOB_SET.group,), resources=(f"{JOB_SET.plural}/status",)),
    PolicyRule(verbs=_CHANGE, api_groups=(WORKLOAD.group,), resources=(WORKLOAD.plural,)),
)

_ACCOUNTS = "system:serviceaccount:"
_USERS = f"{_ACCOUNTS}{USERS_NAMESPACE}:"


def short_user(name: str) -> str:
    """Return the short name of an API user: `ada` for a Muster or Unix user, `NAMESPACE:NAME` for a ServiceAccount."""
    return name.removeprefix(_USERS).removeprefix(_ACCOUNTS).removeprefix(UNIX_PREFIX)


def is_user(query: str, name: str) -> bool:
    """Return whether `query` is the full name of an API user, or the short name that `short_user` returns."""
    return query in (name, short_user(name))


def find_home_namespace(name: str) -> str:
    """Return the namespace of a user's jobs: the namespace of a ServiceAccount; "" if it is unknown.

    It is unknown for a Muster user, whose ServiceAccount is in a namespace without jobs.
    """
    namespace, colon, _ = name.removeprefix(_ACCOUNTS).partition(":")
    is_account = name.startswith(_ACCOUNTS) and bool(colon)
    return namespace if is_account and namespace != USERS_NAMESPACE else ""
