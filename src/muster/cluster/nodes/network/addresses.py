"""Assign each pod an address of its own in 127.0.0.0/8.

The whole range belongs to this machine, so any pod can listen on its address. Addresses are assigned in order, so that
a released address is not soon assigned again. A pod's address never changes: the pod's record on disk contains the
address, and restores it after a restart.
"""

import ipaddress

# Systems use addresses in 127.0.x.y themselves: localhost, resolvers, the host's own name.
_FIRST = int(ipaddress.IPv4Address("127.1.0.1"))
_COUNT = int(ipaddress.IPv4Address("127.254.255.254")) - _FIRST + 1
_BLOCK = 1 << 16


class Addresses:
    """The IP addresses of one cluster's pods, by pod UID.

    seed: a number that gives each cluster on one machine another first address.
    """

    def __init__(self, seed: int = 0) -> None:
        self._next = seed * _BLOCK % _COUNT
        self._by_pod: dict[str, str] = {}
        self._taken: dict[str, str] = {}

    def get(self, uid: str) -> str:
        """Return the pod's address; assign a new one if it has none."""
        address = self._by_pod.get(uid)
        if address is None:
            address = self._find_free()
            self._by_pod[uid] = address
            self._taken[address] = uid
        return address

    def restore(self, uid: str, address: str) -> bool:
        """Let a pod have its former address; return False if that is not possible.

        The address may be out of range or assigned to another pod, or the pod may have another address already. If the
        pod has this address already, return True.
        """
        if (
            not _is_in_range(address)
            or self._taken.get(address, uid) != uid
            or self._by_pod.get(uid, address) != address
        ):
            return False
        if uid in self._by_pod:
            return True
        self._by_pod[uid] = address
        self._taken[address] = uid
        self._next = (int(ipaddress.IPv4Address(address)) - _FIRST + 1) % _COUNT
        return True

    def release(self, uid: str) -> None:
        """Release the address of a deleted pod."""
        address = self._by_pod.pop(uid, None)
        if address is not None:
            del self._taken[address]

    def _find_free(self) -> str:
        for _ in range(_COUNT):
            number = _FIRST + self._next
            self._next = (self._next + 1) % _COUNT
            address = str(ipaddress.IPv4Address(number))
            if 0 < number % 256 < 255 and address not in self._taken:
                return address
        raise RuntimeError("all addresses of 127.0.0.0/8 are taken")


def _is_in_range(address: str) -> bool:
    try:
        return 0 <= int(ipaddress.IPv4Address(address)) - _FIRST < _COUNT
    except ipaddress.AddressValueError:
        return False
