"""The overloads of library functions, the parser of their signatures, and the value types that Kubernetes adds."""

from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct

from muster.cluster.apiserver.cel.values import Duration, Optional, Timestamp, TypeValue, UInt


class Address(Struct, frozen=True):
    """An IP address."""

    cel_name: ClassVar[str] = "net.IP"
    ip: IPv4Address | IPv6Address


class Network(Struct, frozen=True):
    """A range of IP addresses, with the address that the text of the range had."""

    cel_name: ClassVar[str] = "net.CIDR"
    ip: IPv4Address | IPv6Address
    network: IPv4Network | IPv6Network


class Amount(Struct, frozen=True):
    """A quantity, in billionths, so that different notations of one amount are equal."""

    cel_name: ClassVar[str] = "kubernetes.Quantity"
    nanos: int


class Url(Struct, frozen=True):
    """An absolute URL, or an absolute path."""

    cel_name: ClassVar[str] = "kubernetes.URL"
    scheme: str
    host: str
    path: str
    query: str


class Version(Struct, frozen=True):
    """A semantic version."""

    cel_name: ClassVar[str] = "kubernetes.Semver"
    major: int
    minor: int
    patch: int
    pre: tuple[str, ...]


class NamedFormat(Struct, frozen=True):
    """A named format of texts, such as `dns1123Label`."""

    cel_name: ClassVar[str] = "kubernetes.NamedFormat"
    name: str


KINDS: Mapping[str, type] = {
    "dyn": object,
    "bool": bool,
    "int": int,
    "uint": UInt,
    "double": float,
    "string": str,
    "bytes": bytes,
    "list": list,
    "map": dict,
    "null": type(None),
    "timestamp": Timestamp,
    "duration": Duration,
    "type": TypeValue,
    "optional": Optional,
    "net.IP": Address,
    "net.CIDR": Network,
    "kubernetes.Quantity": Amount,
    "kubernetes.URL": Url,
    "kubernetes.Semver": Version,
    "kubernetes.NamedFormat": NamedFormat,
}


class Overload(Struct, frozen=True):
    """One signature of a function, with its implementation.

    standard: whether the CEL library itself declares the overload.
    """

    parameters: tuple[str, ...]
    result: str
    is_member: bool
    run: Callable[..., Any]
    standard: bool

    @property
    def types(self) -> tuple[type, ...]:
        """The Python types of the parameters. `object` stands for any type."""
        return tuple(KINDS[parameter.partition("<")[0]] for parameter in self.parameters)

    def takes(self, types: tuple[type, ...]) -> bool:
        """Return whether the overload accepts arguments of these types."""
        return len(types) == len(self.parameters) and all(
            mine in (object, type_) for mine, type_ in zip(self.types, types, strict=True)
        )


# An overload as the tables write it: name, signature, implementation.
Function: TypeAlias = tuple[str, str, Callable[..., Any]]


class Functions(Struct, frozen=True):
    """The functions of a module.

    table: the overloads that Muster declares.
    standard: the overloads that the CEL library itself declares.
    """

    table: Sequence[Function]
    standard: Sequence[Function] = ()


def group_by_name(*tables: Functions) -> dict[str, tuple[Overload, ...]]:
    """Return the overloads of each function, by its name."""
    result: dict[str, tuple[Overload, ...]] = {}
    for functions in tables:
        for entries, standard in ((functions.standard, True), (functions.table, False)):
            for name, signature, run in entries:
                result[name] = (*result.get(name, ()), _make_overload(signature, run, standard=standard))
    return result


def _make_overload(signature: str, run: Callable[..., Any], *, standard: bool) -> Overload:
    head, _, result = signature.partition(" -> ")
    receiver, _, rest = head.rstrip(")").rpartition("(")
    parameters = tuple(each for each in rest.split(", ") if each)
    member = receiver.removesuffix(".")
    return Overload((member, *parameters) if member else parameters, result, bool(member), run, standard)
