"""Read the devices that drivers publish in ResourceSlices, pool by pool."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from muster.api.groups.resource import Device, ResourceSlice


class Published(NamedTuple):
    """A published device, with the names of its driver and its pool."""

    driver: str
    pool: str
    device: Device


def published_devices(slices: Iterable[ResourceSlice]) -> Iterator[Published]:
    """Yield the devices of each pool's newest generation, once all slices of that generation exist."""
    pools: defaultdict[tuple[str, str], list[ResourceSlice]] = defaultdict(list)
    for one in slices:
        pools[one.spec.driver, one.spec.pool.name].append(one)
    for (driver, pool), parts in sorted(pools.items()):
        last = max(part.spec.pool.generation for part in parts)
        current = [part for part in parts if part.spec.pool.generation == last]
        if len(current) >= current[0].spec.pool.resource_slice_count:
            yield from (Published(driver, pool, device) for part in current for device in part.spec.devices)
