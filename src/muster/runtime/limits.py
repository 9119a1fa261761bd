"""Limit how much is read from a server that must not be trusted with our memory and time."""

from msgspec import Struct

from muster.runtime.transport import TransportError


class Limits(Struct, frozen=True):
    """The most that one answer, event or list may hold; a larger one is refused.

    page: objects that a list requests at once.
    objects, size: of a whole list, and the bytes of all its pages.
    parts: objects, arrays, members and elements in one answer. Decoding many small parts takes a hundred times their
        bytes, and long.
    line, line_parts: the bytes and the parts of one event.
    """

    page: int
    objects: int
    size: int
    parts: int
    line: int
    line_parts: int

    def admit(self, body: bytes) -> None:
        """Raise `TransportError` if an answer, which is not decoded yet, has too many parts."""
        _admit(body, self.parts)

    def admit_line(self, line: bytes) -> None:
        """Raise `TransportError` if an event, which is not decoded yet, exceeds a limit."""
        _admit(line, self.line_parts)

    def admit_list(self, plural: str, objects: int, size: int) -> None:
        """Check how many objects were listed so far, and their size. Raises `TransportError` beyond a limit."""
        if objects > self.objects:
            raise TransportError(f"the server lists more than {self.objects} {plural}")
        if size > self.size:
            raise TransportError(f"the server lists more than {self.size >> 20} MiB of {plural}")


def _admit(body: bytes, parts: int) -> None:
    if sum(map(body.count, (b"{", b"[", b","))) > parts:  # counts too many where strings hold such characters
        raise TransportError(f"the server sent more than {parts} parts at once")
