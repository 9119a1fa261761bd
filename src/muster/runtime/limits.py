"""Limit how much memory and time an untrusted server can use."""

from msgspec import Struct

from muster.runtime.transport import TransportError


class Limits(Struct, frozen=True):
    """The maximum size of a response, event or list. A larger one is refused.

    page: how many objects a list requests per page.
    objects, size: the number of objects of a whole list, and the bytes of all its pages.
    parts: the number of objects, arrays, members and elements in one response. Decoding many small parts takes a
    hundred times their bytes, and long.
    line, line_parts: the bytes and the parts of one event.
    """

    page: int
    objects: int
    size: int
    parts: int
    line: int
    line_parts: int

    def admit(self, body: bytes) -> None:
        """Raise `TransportError` if a response, not decoded yet, has too many parts."""
        _require_few_parts(body, self.parts)

    def admit_line(self, line: bytes) -> None:
        """Raise `TransportError` if an event, not decoded yet, exceeds a limit."""
        _require_few_parts(line, self.line_parts)

    def admit_list(self, plural: str, objects: int, size: int) -> None:
        """Raise `TransportError` if a list exceeds a limit.

        objects, size: the number and the bytes of the objects so far.
        """
        if objects > self.objects:
            raise TransportError(f"the server lists more than {self.objects} {plural}")
        if size > self.size:
            raise TransportError(f"the server lists more than {self.size >> 20} MiB of {plural}")


def _require_few_parts(body: bytes, parts: int) -> None:
    if sum(map(body.count, (b"{", b"[", b","))) > parts:  # counts too many where strings hold such characters
        raise TransportError(f"the server sent more than {parts} parts at once")
