"""Decide how many CPUs a worker requests if its user specifies neither CPUs nor GPUs. Pure.

Without a request, any number of jobs would run concurrently. The default sets a request but no limit, so that a worker
may use idle CPUs. Workers of a gang with more workers than the cluster has CPUs request less, so that the gang can
still start.
"""

from collections.abc import Mapping, Sequence

from msgspec import structs
from msgspec.structs import replace

from muster.actions.errors import UserError
from muster.actions.parsing.quantities import check_quantity
from muster.actions.submission.gang import Gang, Role
from muster.api.values.quantity import parse_thousandths

# The variable with the user's default: CPUs as in `--cpus`; 0 for no request.
VARIABLE = "MUSTER_DEFAULT_CPUS"
_DEFAULT = "1"


def read_default(environ: Mapping[str, str]) -> int:
    """Return the default CPU request of a worker from the environment, in millicores.

    Raises `UserError` for an invalid value.
    """
    try:
        return parse_thousandths(check_quantity(environ.get(VARIABLE) or _DEFAULT))
    except ValueError as error:
        raise UserError(f"{VARIABLE}: {error}") from None


def needs_default(gang: Gang) -> bool:
    """Return whether any worker of the gang has no CPU request and therefore gets the default request."""
    return any(map(_lacks_request, gang.parts))


def set_default_cpus(gang: Gang, default: int, nodes: Sequence[int]) -> Gang:
    """Return the gang with the default CPU request for each worker without one.

    default: the default request in millicores.
    nodes: the CPUs of each node in millicores; empty if the user may not see nodes.
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
    """Return how many workers without a CPU request must fit on the nodes at the same time.

    That is 1 for a sweep, and the minimum size for an elastic gang, because these can start with that number.
    """
    if gang.sweep is not None:
        return 1  # each trial is queued separately
    if gang.elastic is not None:
        return gang.elastic.least
    return sum(role.workers for role in gang.parts if _lacks_request(role))


def _shrink(default: int, workers: int, nodes: Sequence[int]) -> int:
    """Return the largest request, up to the default, with which this number of workers fits on the empty nodes.

    nodes: the CPUs of each node, in millicores.

    Returns the default if the workers do not fit with any request.
    """
    low, high = 0, default
    while low < high:
        middle = (low + high + 1) // 2
        if sum(node // middle for node in nodes) >= workers:
            low = middle
        else:
            high = middle - 1
    return low or default
