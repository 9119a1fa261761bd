"""Each pod its own address in 127.0.0.0/8: all of it is this machine, so any pod can listen and be found there.

Addresses are handed out in order, so that one that was given back is not soon another pod's. A pod keeps its address
for life: it is written down with the pod's other state, and taken back from there after a restart.
"""

import ipaddress

# 127.0.x.y has the addresses that systems use themselves: localhost, resolvers, the host's own name.
_FIRST = int(ipaddress.IPv4Address("127.1.0.1"))
_COUNT = int(ipaddress.IPv4Address("127.254.255.254")) - _FIRST + 1
_BLOCK = 1 << 16


class Addresses:
    """The addresses of one cluster's pods, by uid. `seed` spreads clusters on one machine over the range."""

    def __init__(self, seed: int = 0) -> None:
        self._next = seed * _BLOCK % _COUNT
        self._by_pod: dict[str, str] = {}
        self._taken: dict[str, str] = {}

    def get(self, uid: str) -> str:
        """The pod's address, a new one if it has none."""
        address = self._by_pod.get(uid)
        if address is None:
            address = self._free()
            self._by_pod[uid] = address
            self._taken[address] = uid
        return address

    def restore(self, uid: str, address: str) -> bool:
        """Give a pod the address that it had; False if it is no address of ours, or another's by now."""
        if not _is_ours(address) or self._taken.get(address, uid) != uid or self._by_pod.get(uid, address) != address:
            return False
        self._by_pod[uid] = address
        self._taken[address] = uid
        self._next = (int(ipaddress.IPv4Address(address)) - _FIRST + 1) % _COUNT
        return True

    def release(self, uid: str) -> None:
        """The pod is gone."""
        address = self._by_pod.pop(uid, None)
        if address is not None:
            del self._taken[address]

    def _free(self) -> str:
        for _ in range(_COUNT):
            number = _FIRST + self._next
            self._next = (self._next + 1) % _COUNT
            address = str(ipaddress.IPv4Address(number))
            if 0 < number % 256 < 255 and address not in self._taken:
                return address
        raise RuntimeError("all addresses of 127.0.0.0/8 are taken")


def _is_ours(address: str) -> bool:
    try:
        return 0 <= int(ipaddress.IPv4Address(address)) - _FIRST < _COUNT
    except ipaddress.AddressValueError:
        return False
