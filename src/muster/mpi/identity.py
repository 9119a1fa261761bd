"""Make the identity of a job: a certificate with its key, which only the workers of that job have.

Both ends of a connection present this certificate and trust no other, so that only the job's own workers can run
commands on a worker.
"""

import ssl
from datetime import datetime, timedelta
from pathlib import Path

from muster.runtime.certificates import make_authority

# The start of validity lies in the past, because the clocks of nodes may be behind.
_LIFE, _SKEW = timedelta(days=3650), timedelta(days=1)


def make_identity(now: datetime) -> bytes:
    """Return a new certificate for the workers of a job, with its key, as PEM. It is valid for ten years from `now`."""
    authority = make_authority("muster-mpi", now - _SKEW, _LIFE + _SKEW)
    return authority.certificate_pem + authority.key_pem


def server_context(identity: Path) -> ssl.SSLContext:
    """Return the TLS context of an agent, which is the server.

    identity: the path of the file with the identity.
    """
    return _trust_identity(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), identity)


def client_context(identity: Path) -> ssl.SSLContext:
    """Return the TLS context of rank 0, which is the client.

    identity: the path of the file with the identity.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the identity belongs to the job, not to a host
    return _trust_identity(context, identity)


def _trust_identity(context: ssl.SSLContext, identity: Path) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(identity)
    context.load_verify_locations(identity)
    context.verify_mode = ssl.CERT_REQUIRED
    return context
