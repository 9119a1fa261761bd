"""Parse `--listen ADDRESS[:PORT]` and `--name NAME`. Pure.

The options define where other machines reach the server, and by which names.
"""

from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address

from msgspec import Struct

from muster.api.validation import names

LOOPBACK = "127.0.0.1"
_EVERYWHERE = ("0.0.0.0", "::")
_MAX_PORT = 65535


class ExposureError(ValueError):
    """An invalid value of `--listen` or `--name`. The message says which value, and what was expected."""


class Address(Struct, frozen=True):
    """An address or a host name to listen on, in its normal form. port: None means the port on loopback."""

    host: str
    port: int | None = None

    @property
    def is_everywhere(self) -> bool:
        """Whether the address means all addresses of the machine, so that no client can connect to it by this name."""
        return self.host in _EVERYWHERE


class Exposure(Struct, frozen=True):
    """The addresses and names by which other machines and users reach the server.

    addresses: without any, only programs of this machine reach the server.
    names: further host names and addresses by which others reach it, such as a router's.
    """

    addresses: tuple[Address, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def certified(self) -> tuple[str, ...]:
        """The names in the server's certificate."""
        return (*self.names, *(one.host for one in self.addresses if not one.is_everywhere))

    def inside(self, port: int) -> tuple[str, int]:
        """Return the address to listen on for programs of this machine.

        It is loopback with this port. If other machines reach the server at all addresses with this port, it is all
        addresses.
        """
        everywhere = (_EVERYWHERE[0], port)
        return everywhere if everywhere in self.outside(port) else (LOOPBACK, port)

    def outside(self, port: int) -> list[tuple[str, int]]:
        """Return the addresses to listen on for other machines. port: the port of addresses without one."""
        return [(one.host, port if one.port is None else one.port) for one in self.addresses]


UNEXPOSED = Exposure()


def parse(listen: Sequence[str], also: Sequence[str] = ()) -> Exposure:
    """Return where other machines reach the server. Raises `ExposureError`.

    listen: the values of `--listen`.
    also: the values of `--name`.
    """
    addresses = tuple(map(_parse_address, listen))
    if also and not addresses:
        raise ExposureError("--name says how others reach the server, which needs --listen ADDRESS")
    exposure = Exposure(addresses, tuple(_parse_host(text, "--name") for text in also))
    if addresses and not exposure.certified:
        raise ExposureError(
            f"--listen {listen[0]}: that is every address of this machine, and others have to know one: "
            "add --name, with its host name or address"
        )
    if any(name in _EVERYWHERE for name in exposure.names):
        raise ExposureError("--name: no machine is reached by an address that means all of them")
    return exposure


def make_url(host: str, port: int) -> str:
    """Return `https://host:port`."""
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"


def make_variables(host: str, port: int) -> dict[str, str]:
    """Return the environment variables that tell a container the server's address."""
    return {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": str(port),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(port),
    }


def _parse_address(text: str) -> Address:
    host, port = _split_port(text)
    if port is None:
        return Address(_parse_host(host, "--listen"))
    if not (port.isascii() and port.isdigit() and int(port) <= _MAX_PORT):
        raise ExposureError(f"--listen {text}: {port!r} is not a port")
    return Address(_parse_host(host, "--listen"), int(port))


def _split_port(text: str) -> tuple[str, str | None]:
    """Return the host, and the port or None, of a `--listen` value. Raises `ExposureError`.

    An IPv6 address with a port must have brackets.
    """
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ExposureError(f"--listen {text}: expected [ADDRESS] or [ADDRESS]:PORT")
        return host, rest[1:] if rest else None
    if text.count(":") > 1:
        return text, None
    host, colon, port = text.partition(":")
    return host, port if colon else None


def _parse_host(text: str, option: str) -> str:
    """Return an address in its normal form, or a host name in lower case. Raises `ExposureError`."""
    try:
        address = ip_address(text)
    except ValueError:
        name = text.lower()
        if names.dns_subdomain(name):
            raise ExposureError(f"{option}: {text!r} is neither a host name nor an address") from None
        return name
    if isinstance(address, IPv6Address) and address.scope_id:
        raise ExposureError(f"{option}: {text!r} is valid on this machine only") from None
    return str(address)
