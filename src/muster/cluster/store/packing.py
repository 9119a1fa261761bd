"""Keep the bodies of similar objects in little memory: in pieces, so that a repeated piece is kept only once.

The pods of a job have their containers and most of their managedFields in common, which are two thirds of a body.
Joining the pieces of a body costs about a microsecond, where decompression would cost twenty.
"""

import msgspec

LEAST_BYTES = 4 * 1024  # a shorter body stays whole: there is little to gain, and lists of many join them often
MOST_BYTES = 64 * 1024  # a longer body stays whole, so that a read of one object never joins hundreds of pieces
PIECE_BYTES = 256  # shorter pieces recur more often, and cost more each
RECENT = 1_024  # the least number of cached pieces: the pieces of the newest bodies, for the next bodies
# A new piece begins at each of these members, so that a longer text before it, such as a name, does not shift what
# follows. A cut at a wrong place only costs memory, so text of a user that looks like a member does no harm.
_MEMBERS = (b'"managedFields":', b'"labels":', b'"annotations":', b'"spec":', b'"status":')


class Packed(msgspec.Struct, frozen=True, gc=False):
    """The body of an object in pieces. size: the number of bytes of all pieces."""

    pieces: tuple[bytes, ...]
    size: int


class Packing:
    """The cache of the pieces of recently packed bodies, by which bodies share equal pieces."""

    def __init__(self) -> None:
        self._recent: dict[bytes, bytes] = {}
        self._older: dict[bytes, bytes] = {}

    def pack(self, body: bytes) -> bytes | Packed:
        """Return the pieces of a body, shared with similar bodies.

        Return the body itself if it is too short or too long.
        """
        if not LEAST_BYTES <= len(body) <= MOST_BYTES:
            return body
        recent, pieces = self._recent, list[bytes]()
        for piece in _cut(body):
            shared = recent.get(piece)
            if shared is None:
                shared = recent[piece] = self._older.get(piece, piece)
            pieces.append(shared)
        if len(recent) > RECENT:
            self._recent, self._older = {}, recent
        return Packed(tuple(pieces), len(body))


def _cut(body: bytes) -> list[bytes]:
    """Cut a body at the JSON members that similar objects share, and into pieces of limited size."""
    ends, at = list[int](), 0
    for member in _MEMBERS:
        if (found := body.find(member, at)) > 0:
            ends.append(found)
            at = found
    pieces, start = list[bytes](), 0
    for end in (*ends, len(body)):
        member = body[start:end]
        pieces += [member[at : at + PIECE_BYTES] for at in range(0, end - start, PIECE_BYTES)]
        start = end
    return pieces
