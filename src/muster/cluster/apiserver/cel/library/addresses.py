"""The functions of IP addresses and their ranges.

As in upstream, an address may not be an IPv4-mapped IPv6 address and may have neither a zone nor leading zeroes.
"""

import ipaddress
from ipaddress import IPv6Address

from muster.cluster.apiserver.cel.library.overloads import Address, Functions, Network
from muster.cluster.apiserver.cel.values import CelError


def _parse_ip(text: str) -> Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise CelError(f'IP Address "{text}" parse error during conversion from string: unable to parse IP') from None
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
        if address.scope_id:
            raise CelError(f'IP address "{text}" with zone value is not allowed')
    return Address(address)


def _is_ip(text: str) -> bool:
    try:
        _parse_ip(text)
    except CelError:
        return False
    return True


def _parse_cidr(text: str) -> Network:
    head, slash, bits = text.partition("/")
    try:
        if not slash or not bits.isdecimal() or (len(bits) > 1 and bits[0] == "0"):
            raise ValueError("no prefix length")
        return Network(_parse_ip(head).ip, ipaddress.ip_network(text, strict=False))
    except (ValueError, CelError) as error:
        raise CelError(f'network address parse error during conversion from string: "{text}": {error}') from None


def _is_cidr(text: str) -> bool:
    try:
        _parse_cidr(text)
    except CelError:
        return False
    return True


def _contains_ip(network: Network, address: Address) -> bool:
    return address.ip in network.network


def _contains_cidr(outer: Network, inner: Network) -> bool:
    return (
        outer.ip.version == inner.ip.version
        and outer.network.prefixlen <= inner.network.prefixlen
        and inner.network.network_address in outer.network
    )


def _is_global(address: Address) -> bool:
    ip = address.ip
    return not (
        ip.is_unspecified or ip.is_loopback or ip.is_multicast or ip.is_link_local or str(ip) == "255.255.255.255"
    )


def _is_link_local_multicast(address: Address) -> bool:
    ip = address.ip
    if isinstance(ip, IPv6Address):
        return ip.is_multicast and ip.packed[1] & 0x0F == 2
    return ip.packed[:3] == b"\xe0\x00\x00"


FUNCTIONS = Functions(
    table=(
        ("ip", "(string) -> net.IP", _parse_ip),
        ("isIP", "(string) -> bool", _is_ip),
        ("ip.isCanonical", "(string) -> bool", lambda text: str(_parse_ip(text).ip) == text),
        ("family", "net.IP.() -> int", lambda address: address.ip.version),
        ("isUnspecified", "net.IP.() -> bool", lambda address: address.ip.is_unspecified),
        ("isLoopback", "net.IP.() -> bool", lambda address: address.ip.is_loopback),
        ("isLinkLocalUnicast", "net.IP.() -> bool", lambda address: address.ip.is_link_local),
        ("isLinkLocalMulticast", "net.IP.() -> bool", _is_link_local_multicast),
        ("isGlobalUnicast", "net.IP.() -> bool", _is_global),
        ("cidr", "(string) -> net.CIDR", _parse_cidr),
        ("isCIDR", "(string) -> bool", _is_cidr),
        ("containsIP", "net.CIDR.(net.IP) -> bool", _contains_ip),
        ("containsIP", "net.CIDR.(string) -> bool", lambda network, text: _contains_ip(network, _parse_ip(text))),
        ("containsCIDR", "net.CIDR.(net.CIDR) -> bool", _contains_cidr),
        ("containsCIDR", "net.CIDR.(string) -> bool", lambda network, text: _contains_cidr(network, _parse_cidr(text))),
        ("ip", "net.CIDR.() -> net.IP", lambda network: Address(network.ip)),
        ("prefixLength", "net.CIDR.() -> int", lambda network: network.network.prefixlen),
        ("masked", "net.CIDR.() -> net.CIDR", lambda cidr: Network(cidr.network.network_address, cidr.network)),
    ),
)
