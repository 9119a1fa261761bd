"""The rules of IP addresses and networks."""

import ipaddress
import re

from muster.api.validation.fields import Errors, invalid

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_LEADING_ZERO = re.compile(r"(^|\.)0+(?=\d)")


def parse(value: str) -> Address | None:
    """Parse an IP address. None for any other text."""
    try:
        return None if "%" in value else ipaddress.ip_address(value)
    except ValueError:
        return None


def validate_ip_address(path: str, value: str, known: tuple[str, ...] = ()) -> Errors:
    """Check an IP address. An address in `known`, such as an unchanged one, is always valid."""
    if value in known:
        return
    address = parse(value)
    if address is None:
        if parse(_LEADING_ZERO.sub(r"\1", value)) is not None:
            yield invalid(path, value, "must not have leading 0s")
        else:
            yield invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
    elif isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        yield invalid(path, value, "must not be an IPv4-mapped IPv6 address")


def validate_public_address(path: str, value: str) -> Errors:
    """Check that an IP address can be reached from other machines; a text that is no address passes."""
    address = parse(value)
    if address is None:
        return
    if address.is_unspecified:
        yield invalid(path, value, f"may not be unspecified ({value})")
    if address.is_loopback:
        yield invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        yield invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")


def validate_network(path: str, value: str, known: tuple[str, ...] = ()) -> Errors:
    """Check a network in CIDR form. A network in `known` is always valid."""
    if value in known:
        return
    try:
        ipaddress.ip_network(value)
    except ValueError:
        try:
            ipaddress.ip_network(value, strict=False)
        except ValueError:
            yield invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
        else:
            yield invalid(path, value, "must not have bits set beyond the prefix length")


def validate_address_families(path: str, values: tuple[str, ...]) -> Errors:
    """Check that there are at most one IPv4 and one IPv6 address."""
    versions = [address.version for address in map(parse, values) if address is not None]
    if len(values) > 1 and (len(values) > 2 or len(set(versions)) != len(values)):
        yield invalid(path, values, "may specify no more than one IP for each IP family")
