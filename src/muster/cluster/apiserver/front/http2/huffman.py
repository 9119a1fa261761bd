"""Decode the Huffman code of header fields (RFC 7541, appendix B)."""

from functools import cache

# The number of bits in the code of each byte, and last in the code of the end. The code is canonical, so the lengths
# define it.
_LENGTHS = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c060a0a0c0d06080b0a0a080b080606060505050606060606"
    "060607080f060c0a0d06070707070707070707070707070707070707070707070807080d130d0e060f050605060506060605070706060605"
    "06070605050607070707070f0b0e0d1c14161414161616171617171717171817181816171817171717151617161717181615141616171715"
    "1716161815161717151516151716171714161616171616171a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b"
    "14181415161515171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a1e"
)
_END = 256


class HuffmanError(Exception):
    """An input that is no text in this code."""


class _Node:
    """A node in the tree of codes. Its two successors, by the next bit, are nodes or decoded bytes.

    steps: for each value of the next eight bits, the bytes that these bits complete and the node that they lead to. A
    step is added when it is first needed.
    """

    __slots__ = ("accepts", "next", "steps")

    def __init__(self) -> None:
        self.next: list[_Node | int] = [_END, _END]
        self.accepts = False  # whether a text may end here: the bits since the last byte are padding
        self.steps: dict[int, tuple[bytes, _Node]] = {}


def decode(data: bytes) -> bytes:
    """Return the decoded text. Raises `HuffmanError`."""
    node, text = _make_root(), []
    for byte in data:
        piece, node = node.steps.get(byte) or _add_step(node, byte)
        text.append(piece)
    if not node.accepts:
        raise HuffmanError("the padding is wrong")
    return b"".join(text)


def _add_step(start: _Node, byte: int) -> tuple[bytes, _Node]:
    """Follow eight bits from a node, and store the result in the node's `steps`.

    Return the bytes that the bits complete, and the node that they lead to. Raises `HuffmanError`.
    """
    decoded, node = bytearray(), start
    for shift in range(7, -1, -1):
        following = node.next[byte >> shift & 1]
        if isinstance(following, int):
            if following == _END:
                raise HuffmanError("the end is no part of a text")
            decoded.append(following)
            following = _make_root()
        node = following
    start.steps[byte] = step = bytes(decoded), node
    return step


@cache
def _make_root() -> _Node:
    root = _Node()
    code, length = 0, 0
    for bits, symbol in sorted((bits, symbol) for symbol, bits in enumerate(_LENGTHS)):
        code <<= bits - length
        length = bits
        _add_code(root, code, bits, symbol)
        code += 1
    node = root
    for _ in range(8):  # the padding of the last byte is up to seven ones, the first bits of the end
        node.accepts = True
        following = node.next[1]
        assert isinstance(following, _Node)
        node = following
    return root


def _add_code(root: _Node, code: int, bits: int, symbol: int) -> None:
    node = root
    for shift in range(bits - 1, 0, -1):
        bit = code >> shift & 1
        following = node.next[bit]
        if not isinstance(following, _Node):
            following = node.next[bit] = _Node()
        node = following
    node.next[code & 1] = symbol
