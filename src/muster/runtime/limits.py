"""How much is taken of a server that is not to be trusted with our memory and time."""

from msgspec import Struct

from muster.runtime.transport import TransportError


class Limits(Struct, frozen=True):
    """More is no answer.

    page: objects that a list asks for at once.
    objects, size: of a whole list, and the bytes of all its pages.
    parts: objects, arrays, members and elements in one answer. What is made of many small ones takes a hundred times
        their bytes, and long.
    line, line_parts: bytes of one event, and the same of it.
    """

    page: int
    objects: int
    size: int
    parts: int
    line: int
    line_parts: int

    def admit(self, body: bytes) -> None:
        """An answer, before anything is made of it. Raises `TransportError`."""
        _admit(body, self.parts)

    def admit_line(self, line: bytes) -> None:
        """The same of an event."""
        _admit(line, self.line_parts)

    def admit_list(self, plural: str, objects: int, size: int) -> None:
        """What has come of it so far. Raises `TransportError`."""
        if objects > self.objects:
            raise TransportError(f"the server lists more than {self.objects} {plural}")
        if size > self.size:
            raise TransportError(f"the server lists more than {self.size >> 20} MiB of {plural}")


def _admit(body: bytes, parts: int) -> None:
    if sum(map(body.count, (b"{", b"[", b","))) > parts:  # more, where text has such characters
        raise TransportError(f"the server sent more than {parts} parts at once")
