"""Find the IP address of a worker's host name, and the network interface with that address."""

import asyncio
import fcntl
import socket
import struct
from ipaddress import ip_address

from muster.mpi.variables import LOOPBACK
from muster.runtime.clock import Clock

_SIOCGIFADDR = 0x8915
_RETRY_SECONDS = 0.5


async def address_of(host: str, clock: Clock) -> str:
    """Wait until the host name resolves, and return its IP address. DNS may resolve a new pod's name only later."""
    while True:
        try:
            addresses = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except socket.gaierror:
            await clock.sleep(_RETRY_SECONDS)
        else:
            return str(addresses[0][4][0])


def interface_of(address: str) -> str:
    """Return the name of this machine's network interface with this IPv4 address; "" if none has it."""
    if ip_address(address).is_loopback:  # all of 127.0.0.0/8 is the loopback interface's
        return LOOPBACK
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        return next((name for _, name in socket.if_nameindex() if _find_ipv4(probe, name) == address), "")


def _find_ipv4(probe: socket.socket, interface: str) -> str:
    try:
        answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
    except OSError:  # the interface has no IPv4 address
        return ""
    return socket.inet_ntoa(answer[20:24])
