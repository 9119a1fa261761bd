"""Make TLS contexts for both ends of a connection, and explain connection failures in one line.

Invariant: a key is never on a disk if the system has memory files. Otherwise it is, for the moment in which OpenSSL
reads it, in a file of mode 0600.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from muster.runtime.kube.credentials import ClientCertificate, CredentialError, read_file
from muster.runtime.kube.kubeconfig import ClusterConfig
from muster.runtime.kube.requests import BROKEN, UNANSWERED
from muster.runtime.transport import TransportError

_ALERTS = {
    "CERTIFICATE_REQUIRED": "the server wants a client certificate",
    "UNKNOWN_CA": "the server does not know the authority of our client certificate",
    "BAD_CERTIFICATE": "the server refuses our client certificate",
    "CERTIFICATE_EXPIRED": "our client certificate has expired",
    "WRONG_VERSION_NUMBER": "the server does not speak TLS on this port",
    "HTTP_REQUEST": "the server does not speak TLS on this port",
    "PROTOCOL_VERSION": "the server speaks only versions of TLS that are not safe",
}

_TRUST_CHECK = "look at certificate-authority, tls-server-name and the address in the kubeconfig"

# Advice by OpenSSL's code of a failed verification: X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED.
_CLOCK_CHECKS = {
    9: "compare this machine's clock with the server's (date)",
    10: "compare this machine's clock with the server's (date); if both are right, renew the certificate",
}


def client_context(cluster: ClusterConfig, certificate: ClientCertificate | None) -> ssl.SSLContext:
    """Return the TLS context for connections to a server. Raises `TransportError`.

    certificate: the client certificate to present; None to connect without one. The server's certificate is verified as
    in Go: any certificate of the kubeconfig's authority ends the chain, and authorities may lack extensions that newer
    rules require.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _load_authority(context, cluster)
    if cluster.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load_certificate(context, certificate)
    return context


def server_context() -> ssl.SSLContext:
    """Return a TLS context for connections from clients. The caller loads a certificate with `load_pair`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Make a server context present this certificate from now on. Both arguments are PEM. Raises `ssl.SSLError`."""
    with _write_private_file(certificate.rstrip() + b"\n" + key) as path:
        # Without a password, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(path, password="")


@contextmanager
def no_bundle() -> Iterator[None]:
    """Keep OpenSSL from reading the system's file of authorities inside this context.

    aiohttp reads the file twice on import, for contexts that Muster never uses; that is half of the import's time. Use
    this only if this process belongs to Muster: other users of aiohttp in the process may need those contexts.
    """
    variable = ssl.get_default_verify_paths().openssl_cafile_env
    before = os.environ.get(variable)
    os.environ[variable] = os.devnull
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


def explain(error: BaseException) -> str:
    """Return in one line why no response arrived, and what to check."""
    import aiohttp  # a context alone should not cost this import

    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    match cause:
        case ssl.SSLCertVerificationError():
            reason = cause.verify_message.rstrip(".")
            check = _CLOCK_CHECKS.get(cause.verify_code, _TRUST_CHECK)
            return f"the server's certificate is not trusted: {reason}; {check}"
        case ssl.SSLError():
            alert = next((text for word, text in _ALERTS.items() if word in (cause.reason or "")), "")
            return f"TLS failed: {alert or cause.reason or cause}"
    match error:
        case aiohttp.ClientHttpProxyError():
            return f"the proxy refuses: {error.status} {error.message}"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy cannot be reached: {_explain_error(cause)}"
        case aiohttp.ClientConnectorDNSError():
            return f"the host name cannot be resolved: {_explain_error(cause)}"
        case aiohttp.ConnectionTimeoutError():
            return "the server does not take the connection in time"
        case aiohttp.ServerDisconnectedError():
            return UNANSWERED
        case aiohttp.ClientPayloadError() | ConnectionResetError():
            return BROKEN
    return _explain_error(cause)


def _explain_error(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _load_authority(context: ssl.SSLContext, cluster: ClusterConfig) -> None:
    if cluster.certificate_authority_file is not None:
        where, data = str(cluster.certificate_authority_file), read_file(cluster.certificate_authority_file)
    elif cluster.certificate_authority is not None:
        where, data = "certificate-authority-data", cluster.certificate_authority
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    try:
        # Text between the certificates is a comment, in any encoding.
        context.load_verify_locations(cadata=data.decode("latin-1").encode("ascii", errors="replace").decode())
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "there is none, or one is damaged"
        raise TransportError(f"{where}: is not a list of certificates in PEM: {reason}") from None


def _load_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    try:
        load_pair(context, certificate.certificate, certificate.key)
    except ssl.SSLError as error:
        reason = error.reason or "the certificate or its key is not PEM, or the key is encrypted"
        raise CredentialError(f"client certificate and key: {reason}") from None


@contextmanager
def _write_private_file(content: bytes) -> Iterator[str]:
    """Write content to a private file for OpenSSL, which reads only files; yield the file's path."""
    try:
        fd = os.memfd_create("certificate")
    except (AttributeError, OSError):
        # Not on this system, or forbidden.
        with tempfile.NamedTemporaryFile(prefix="muster-") as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    with os.fdopen(fd, "wb") as memory:
        memory.write(content)
        memory.flush()
        yield f"/proc/self/fd/{fd}"
