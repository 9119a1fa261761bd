"""Parses listen addresses, as the Configuration and options write them."""

OFF = "0"  # the address that serves nothing (controller-runtime)


class BadAddressError(ValueError):
    """A text that is no bind address; names it."""


def address(text: str) -> tuple[str, int]:
    """Return the host ("" for all) and port of `:8081`, `127.0.0.1:8081` or `[::1]:8081`. Raises `BadAddressError`."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BadAddressError(f"{text!r} is no address to serve at, such as :8081 or 127.0.0.1:8081")
    return host.removeprefix("[").removesuffix("]"), int(port)
