"""Parse listen addresses of the Configuration and of options."""

OFF = "0"  # the address that turns a server off (as in controller-runtime)


class BadAddressError(ValueError):
    """A text that is no valid listen address. The message contains the text."""


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and the port of a listen address: `:8081`, `127.0.0.1:8081` or `[::1]:8081`.

    The host is "" for all addresses. Raises `BadAddressError`.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BadAddressError(f"{text!r} is no address to serve at, such as :8081 or 127.0.0.1:8081")
    return host.removeprefix("[").removesuffix("]"), int(port)
