"""Decide how many CPUs a worker requests if its user names neither CPUs nor GPUs. Pure.

Without a request, any number of jobs would run at once. The default is a request and no limit, so a worker may use idle
CPUs. A gang that has more workers than the cluster has CPUs requests less, so that it can still start.
"""

from collections.abc import Mapping, Sequence

from msgspec import structs
from msgspec.structs import replace

from muster.actions.errors import UserError
from muster.actions.parsing.quantities import check_quantity
from muster.actions.submission.gang import Gang, Role
from muster.api.values.quantity import parse_thousandths

# The user's setting: CPUs as in `--cpus`; 0 for no request.
VARIABLE = "MUSTER_DEFAULT_CPUS"
_DEFAULT = "1"


def read_default(environ: Mapping[str, str]) -> int:
    """Return the default CPU request of a worker, in thousandths of a CPU, from the environment.

    Raises `UserError` for an invalid setting.
    """
    try:
        return parse_thousandths(check_quantity(environ.get(VARIABLE) or _DEFAULT))
    except ValueError as error:
        raise UserError(f"{VARIABLE}: {error}") from None


def needs_default(gang: Gang) -> bool:
    """Return whether any worker of the gang has no CPU request, so that it gets the default."""
    return any(map(_lacks_request, gang.parts))


def set_default_cpus(gang: Gang, default: int, nodes: Sequence[int]) -> Gang:
    """Return the gang with the default request for workers without one.

    default: thousandths of a CPU.
    nodes: the CPUs of each node that the user sees; empty if the user sees no node.
    """
    if not default or not needs_default(gang):
        return gang
    share = _shrink(default, _count_workers(gang), nodes) if nodes else default
    cpus = f"{share}m" if share % 1000 else str(share // 1000)
    if not gang.roles:
        return replace(gang, cpus=cpus)
    roles = [structs.replace(role, cpus=cpus) if _lacks_request(role) else role for role in gang.roles]
    return replace(gang, roles=roles)


def _lacks_request(role: Role) -> bool:
    return not role.cpus and not role.gpus


def _count_workers(gang: Gang) -> int:
    """Return how many workers without a request must fit on the nodes at one time.

    That is 1 for a sweep, and the smallest size for an elastic gang, because these can start with so few.
    """
    if gang.sweep is not None:
        return 1  # trials queue independently
    if gang.elastic is not None:
        return gang.elastic.least
    return sum(role.workers for role in gang.parts if _lacks_request(role))


def _shrink(default: int, workers: int, nodes: Sequence[int]) -> int:
    """Return the largest request up to the default for which this many workers fit on the empty nodes.

    Return the default if they never fit. nodes: the CPUs of each node, in thousandths.
    """
    low, high = 0, default
    while low < high:
        middle = (low + high + 1) // 2
        if sum(node // middle for node in nodes) >= workers:
            low = middle
        else:
            high = middle - 1
    return low or default
