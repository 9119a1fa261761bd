"""The reader of one connection: it joins received pieces of any size and returns the complete frames."""

from collections.abc import Iterator

from muster.cluster.apiserver.front.http2.frames import PREFACE, BadConnection, Code, Frame, read_next_frame


class Reader:
    """The frame parser of one connection. It keeps the bytes of an incomplete frame."""

    def __init__(self) -> None:
        self._buffer = b""
        self._is_greeted = False  # the client has sent its preface

    def frames(self, data: bytes) -> Iterator[Frame]:
        """Add bytes, and yield the frames that are now complete. Raises `BadConnection`."""
        buffer = self._buffer + data if self._buffer else data
        at = 0
        if not self._is_greeted:
            if not PREFACE.startswith(buffer[: len(PREFACE)]):
                raise BadConnection(Code.PROTOCOL_ERROR, "this is no HTTP/2")
            if len(buffer) < len(PREFACE):
                self._buffer = buffer
                return
            self._is_greeted, at = True, len(PREFACE)
        frame, at = read_next_frame(buffer, at)
        while frame is not None:
            yield frame
            frame, at = read_next_frame(buffer, at)
        self._buffer = buffer[at:]
