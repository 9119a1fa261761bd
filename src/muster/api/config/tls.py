"""The TLS versions, ciphers and curves of Go's crypto/tls, which a configuration may name."""

from collections.abc import Iterator
from typing import Final

from muster.api.config.types import TLSOptions

NEWEST: Final = "VersionTLS13"

_CIPHERS: Final = frozenset({
    "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
})  # fmt: skip
_INSECURE_CIPHERS: Final = frozenset({
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA", "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256", "TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384", "TLS_RSA_WITH_RC4_128_SHA",
})  # fmt: skip
_CURVES: Final = frozenset({23, 24, 25, 29, 4588})  # P-256, P-384, P-521, X25519, X25519MLKEM768
_MAX_CURVE: Final = 2**16 - 1


def find_problems(options: TLSOptions) -> Iterator[str]:
    """Yield upstream's messages about options with which no server could start."""
    version = options.min_version
    if version not in ("", "VersionTLS12", NEWEST):
        known = version in ("VersionTLS10", "VersionTLS11")
        cause = "" if known else f': unknown tls version "{version}"'
        yield f"invalid minVersion{cause}. Please use VersionTLS12 or VersionTLS13"
    for cipher in options.cipher_suites:
        if cipher not in _CIPHERS | _INSECURE_CIPHERS:
            names = " ".join(sorted(_CIPHERS))
            yield (
                f"invalid cipher suites: Cipher suite {cipher} not supported or doesn't exist. "
                f"Please use the secure cipher names: [{names}]"
            )
            break
    for i, curve in enumerate(options.curve_preferences):
        if sentence := _name_curve(curve, options.curve_preferences[:i]):
            yield f"invalid curve preferences: {sentence}"
            break


def _name_curve(curve: int, before: tuple[int, ...]) -> str:
    if not 0 < curve <= _MAX_CURVE:
        return f"curve preference {curve} is out of range (must be 1-{_MAX_CURVE})"
    if curve in before:
        return f"duplicate curve preference {curve}"
    return "" if curve in _CURVES else f"curve preference {curve} is not supported"
