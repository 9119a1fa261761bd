"""`--listen ADDRESS[:PORT]` and `--name NAME`: where the server is reached from other machines, and as what. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from muster.api.validation import names

LOOPBACK = "127.0.0.1"
_EVERYWHERE = ("0.0.0.0", "::")
_MAX_PORT = 65535


class ExposureError(ValueError):
    """A `--listen` or `--name` that makes no sense; says which, and what was expected."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: an address or a host name in its usual form; without a port, on the same as on loopback."""

    host: str
    port: int | None = None

    @property
    def is_everywhere(self) -> bool:
        """Whether it means all addresses of the machine, and so none by which others could find it."""
        return self.host in _EVERYWHERE


@dataclass(frozen=True, slots=True)
class Exposure:
    """What else than programs of this machine reaches the server: nothing, without addresses.

    names: further host names and addresses by which others reach it, as behind a router.
    """

    addresses: tuple[Address, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def certified(self) -> tuple[str, ...]:
        """What the server's certificate has to name."""
        return (*self.names, *(one.host for one in self.addresses if not one.is_everywhere))

    def inside(self, port: int) -> tuple[str, int]:
        """What to listen on for programs of this machine, if the port on loopback is this one."""
        everywhere = (_EVERYWHERE[0], port)
        return everywhere if everywhere in self.outside(port) else (LOOPBACK, port)

    def outside(self, port: int) -> list[tuple[str, int]]:
        """What to listen on for others."""
        return [(one.host, port if one.port is None else one.port) for one in self.addresses]


UNEXPOSED = Exposure()


def parse(listen: Sequence[str], also: Sequence[str] = ()) -> Exposure:
    """Read the options. Raises `ExposureError`."""
    addresses = tuple(map(_address, listen))
    if also and not addresses:
        raise ExposureError("--name says how others reach the server, which needs --listen ADDRESS")
    found = Exposure(addresses, tuple(_host(text, "--name") for text in also))
    if addresses and not found.certified:
        raise ExposureError(
            f"--listen {listen[0]}: that is every address of this machine, and others have to know one: "
            "add --name, with its host name or address"
        )
    if any(name in _EVERYWHERE for name in found.names):
        raise ExposureError("--name: no machine is reached by an address that means all of them")
    return found


def url(host: str, port: int) -> str:
    """`https://host:port`."""
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"


def variables(host: str, port: int) -> dict[str, str]:
    """What tells a container where the server is."""
    return {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": str(port),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(port),
    }


def _address(text: str) -> Address:
    host, port = _parted(text)
    if port is None:
        return Address(_host(host, "--listen"))
    if not (port.isascii() and port.isdigit() and int(port) <= _MAX_PORT):
        raise ExposureError(f"--listen {text}: {port!r} is no port")
    return Address(_host(host, "--listen"), int(port))


def _parted(text: str) -> tuple[str, str | None]:
    """Host and port; an IPv6 address with a port has brackets."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ExposureError(f"--listen {text}: expected [ADDRESS] or [ADDRESS]:PORT")
        return host, rest[1:] if rest else None
    if text.count(":") > 1:
        return text, None
    host, colon, port = text.partition(":")
    return host, port if colon else None


def _host(text: str, option: str) -> str:
    """An address as everyone writes it, or a host name."""
    try:
        address = ip_address(text)
    except ValueError:
        name = text.lower()
        if names.dns_subdomain(name):
            raise ExposureError(f"{option}: {text!r} is neither a host name nor an address") from None
        return name
    if isinstance(address, IPv6Address) and address.scope_id:
        raise ExposureError(f"{option}: {text!r} means something on this machine alone") from None
    return str(address)
