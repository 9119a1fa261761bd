"""What a client of SPDY sends."""

import zlib

from muster.cluster.apiserver.pods.tunnels.spdy import DICTIONARY


class Client:
    """What a client sends; the headers of all its streams are one compressed stream, so the order counts."""

    def __init__(self):
        self.deflate = zlib.compressobj(zdict=DICTIONARY)

    def headers(self, pairs):
        plain = len(pairs).to_bytes(4, "big")
        for pair in pairs:
            for text in pair:
                plain += len(text).to_bytes(4, "big") + text.encode()
        return self.deflate.compress(plain) + self.deflate.flush(zlib.Z_SYNC_FLUSH)

    def open(self, stream, *pairs, last=False):
        body = stream.to_bytes(4, "big") + bytes(6) + self.headers(pairs)
        return control(1, body, flags=int(last))


def control(kind, body, *, flags=0, version=3):
    return (0x8000 | version).to_bytes(2, "big") + kind.to_bytes(2, "big") + bytes((flags,)) + length(body) + body


def length(body):
    return len(body).to_bytes(3, "big")


def data(stream, body, *, last=False):
    return stream.to_bytes(4, "big") + bytes((int(last),)) + length(body) + body
