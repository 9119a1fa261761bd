"""The Huffman code of header fields (RFC 7541, appendix B)."""

from functools import cache

# How many bits the code of each byte has, and of the end at last. The code is canonical: the lengths say all of it.
_LENGTHS = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c060a0a0c0d06080b0a0a080b080606060505050606060606"
    "060607080f060c0a0d06070707070707070707070707070707070707070707070807080d130d0e060f050605060506060605070706060605"
    "06070605050607070707070f0b0e0d1c14161414161616171617171717171817181816171817171717151617161717181615141616171715"
    "1716161815161717151516151716171714161616171616171a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b"
    "14181415161515171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a1e"
)
_END = 256


class HuffmanError(Exception):
    """Bytes that are no text in this code."""


class _Node:
    """A place in the tree of codes: what follows on a 0 and on a 1, a node or a byte."""

    __slots__ = ("accepts", "next")

    def __init__(self) -> None:
        self.next: list[_Node | int] = [_END, _END]
        self.accepts = False  # a text may end here: what led here since the last byte is padding


def decode(data: bytes) -> bytes:
    """The text. Raises `HuffmanError`."""
    node, text = _root(), []
    for byte in data:
        node, piece = _step(node, byte)
        text.append(piece)
    if not node.accepts:
        raise HuffmanError("the padding is wrong")
    return b"".join(text)


@cache  # of 256 nodes and 256 bytes
def _step(node: _Node, byte: int) -> tuple[_Node, bytes]:
    """What eight bits lead to, and the bytes that they complete. Raises `HuffmanError`."""
    found = bytearray()
    for shift in range(7, -1, -1):
        following = node.next[byte >> shift & 1]
        if isinstance(following, int):
            if following == _END:
                raise HuffmanError("the end is no part of a text")
            found.append(following)
            following = _root()
        node = following
    return node, bytes(found)


@cache
def _root() -> _Node:
    root = _Node()
    code, length = 0, 0
    for bits, symbol in sorted((bits, symbol) for symbol, bits in enumerate(_LENGTHS)):
        code <<= bits - length
        length = bits
        _plant(root, code, bits, symbol)
        code += 1
    node = root
    for _ in range(8):  # up to seven ones, the first bits of the end, fill the last byte
        node.accepts = True
        following = node.next[1]
        assert isinstance(following, _Node)
        node = following
    return root


def _plant(root: _Node, code: int, bits: int, symbol: int) -> None:
    node = root
    for shift in range(bits - 1, 0, -1):
        bit = code >> shift & 1
        following = node.next[bit]
        if not isinstance(following, _Node):
            following = node.next[bit] = _Node()
        node = following
    node.next[code & 1] = symbol
