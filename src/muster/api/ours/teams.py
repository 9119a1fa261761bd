"""The annotations of ClusterQueues for teams.

They say who may use a queue, which shared queue gives it quota, whether its quota follows the nodes, whether users
without a team may use it, and the limits for each user. Only users who may change ClusterQueues can write them.
`read_limits` ignores malformed limits; `find_limit_problems` lists them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

# The short names of the only users whose jobs may use the ClusterQueue, separated by commas.
QUEUE_USERS: Final = "muster.dev/users"

# The shared ClusterQueue that gives this ClusterQueue its quota, and has that much less itself.
QUOTA_OF: Final = "muster.dev/quota-of"

# An annotation of a ClusterQueue with one resource group, whose nominal quota then follows its nodes.
FOLLOWS_NODES: Final = "muster.dev/quota-from-nodes"

# Whether jobs of users without a team may run in a shared ClusterQueue: `true` or `false`.
WITHOUT_TEAM: Final = "muster.dev/without-team"

# The limits for each user, as `jobs=4,gpus=2,waiting-jobs=20,waiting-gpus=8`.
USER_LIMITS: Final = "muster.dev/user-limits"

# Reasons of the condition QuotaReserved=False.
NOT_A_USER: Final = "NotUserOfQueue"
USER_LIMIT_REACHED: Final = "UserLimitReached"


class UserLimits(Struct, frozen=True):
    """The limits for each single user in a ClusterQueue; None for no limit.

    jobs, gpus: the most jobs with quota, and the most GPUs that they request.
    waiting_jobs, waiting_gpus: the most jobs that wait for quota, and the most GPUs that they request.
    """

    jobs: int | None = None
    gpus: int | None = None
    waiting_jobs: int | None = None
    waiting_gpus: int | None = None


NO_LIMITS: Final = UserLimits()
LIMIT_NAMES: Final = tuple(name.replace("_", "-") for name in UserLimits.__struct_fields__)


def read_users(annotations: Mapping[str, str]) -> frozenset[str] | None:
    """Return the users of a ClusterQueue; None if it is for everybody."""
    text = annotations.get(QUEUE_USERS)
    return None if text is None else frozenset(filter(None, (one.strip() for one in text.split(","))))


def write_users(users: Iterable[str]) -> str:
    """Return the value of the annotation that names these users."""
    return ",".join(sorted(users))


def read_limits(annotations: Mapping[str, str]) -> UserLimits:
    """Return the limits for each user of a ClusterQueue, without those that are malformed."""
    limits = {}
    for name, amount in _split(annotations.get(USER_LIMITS, "")):
        if name in LIMIT_NAMES and amount.isascii() and amount.isdigit():
            limits[name.replace("-", "_")] = int(amount)
    return UserLimits(**limits)


def write_limits(limits: UserLimits) -> str:
    """Return the value of the annotation with these limits."""
    return ",".join(f"{name.replace('_', '-')}={n}" for name, n in asdict(limits).items() if n is not None)


def find_limit_problems(text: str) -> Iterator[str]:
    """Yield a sentence for each malformed part of a text of user limits, such as `jobs=4,gpus=2`."""
    for name, amount in _split(text):
        if name not in LIMIT_NAMES:
            yield f"{name!r} is no limit; there are: {', '.join(LIMIT_NAMES)}"
        elif not (amount.isascii() and amount.isdigit()):
            yield f"{name}={amount}: expected a number, as {name}=4"


def _split(text: str) -> Iterator[tuple[str, str]]:
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, amount = part.partition("=")
        yield name.strip(), amount.strip()
