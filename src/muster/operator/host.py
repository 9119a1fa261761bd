"""Run a replica as a process: its connection, its signals, its probes and metrics."""

import asyncio
import signal
import ssl
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography.x509.oid import ExtendedKeyUsageOID

from muster.api.config import Configuration
from muster.controllers.engine import Part
from muster.insight.reader.engine import is_embedded
from muster.multicluster.links.reach import Reach
from muster.operator.admission import Webhooks
from muster.operator.endpoints import make_metrics_handler, make_probe_handlers, serve_handlers
from muster.operator.precedence import make_identity
from muster.operator.replica import FIELD_MANAGER, PARTS, OtherManagerError, Replica
from muster.operator.scrapers import Scrapers
from muster.operator.serving import make_certificates
from muster.operator.signals import stop_on
from muster.operator.visibility import serve_visibility
from muster.runtime.certificates import issue_certificate, make_authority, subject_of
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.control.manager import Manager
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.kube.tls import load_pair, server_context
from muster.runtime.process.garbage import settle
from muster.runtime.tasks import run_together
from muster.runtime.transport import Transport

# The life of the certificate for metrics; no process runs as long.
_METRICS_LIFE = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `muster controllers`.

    host: the name of this machine or pod.
    plain_metrics: whether metrics are served over HTTP, to all callers.
    webhooks: whether webhooks are served.
    """

    connection: ConnectionConfig
    configuration: Configuration
    host: str
    parts: Iterable[Part] = PARTS
    plain_metrics: bool = False
    webhooks: bool = True


async def operate(
    options: Options,
    signals: Iterable[signal.Signals],
    report: Callable[[str], None],
    connect: Reach = HttpsTransport,
) -> None:
    """Run a replica until one of the signals.

    report: called with each address at which it serves.
    connect: opens a transport to the cluster.

    Raises the errors of `Replica.run` and `Webhooks.run`, `BadAddressError`, and `OSError`.
    """
    clock, random, ids, settings = RealClock(), Random(), Ids(), options.configuration
    transport = connect(options.connection, clock, random)
    # Webhooks only read, as those of a standby do. So they continue with a transport of their own, until their port is
    # closed, after a replica that has lost its Lease has closed the other one.
    reading = connect(options.connection, clock, random)
    name = make_identity(options.host, ids.uid())
    pod = options.host if settings.features.is_enabled("VisibilityOnDemand") else ""
    replica = Replica(transport, ExternalInputs(clock, ids, random), settings, name, options.parts, pod=pod)

    def manager(way: Transport = transport) -> Manager:
        # Requests for webhooks are not rate-limited, because an API server waits for their answers.
        return Manager(Client(way, field_manager=FIELD_MANAGER), clock, random)

    # Each part has its own manager, so that no part waits for kinds that another part may not read.
    keeping, shows = manager(), settings.features.is_enabled("VisibilityOnDemand")
    kept = make_certificates(keeping, settings)
    webhooks = Webhooks(keeping, manager(reading), kept, settings, replica, report) if options.webhooks else None
    shown = serve_visibility(manager(), kept, settings, replica, report) if shows else nullcontext()
    stop_on(signals, replica.stop)
    judge = context = None
    if not options.plain_metrics:
        judge = Scrapers(Client(transport, field_manager=FIELD_MANAGER), clock).status
        context = _make_metrics_context(clock.now(), options.host)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(transport.close)
        stack.push_async_callback(reading.close)
        if await is_embedded(Client(transport)):
            raise OtherManagerError("this is a cluster of `muster up`, which has an engine of its own already")
        health = settings.health.health_probe_bind_address
        # A replica that serves webhooks is ready whatever it waits for, because the API server may need its webhooks
        # for that.
        ready = (webhooks.unready, replica.unready) if webhooks is not None else (replica.unready,)
        port = await stack.enter_async_context(serve_handlers(health, make_probe_handlers(settings.health, *ready)))
        report(f"probes at port {port}" if port else "no probes")
        exposed = make_metrics_handler(replica.registry, judge)
        port = await stack.enter_async_context(serve_handlers(settings.metrics.bind_address, exposed, context))
        report(f"metrics at port {port}" if port else "no metrics")
        settling = asyncio.create_task(_freeze_after_start(replica))
        stack.callback(settling.cancel)
        serves = webhooks is not None or shows
        await run_together(replica.run(), *([serve_when_alone(replica, keeping, webhooks, shown)] if serves else []))


async def serve_when_alone(
    replica: Replica, keeping: Manager, webhooks: Webhooks | None, visibility: AbstractAsyncContextManager[None]
) -> None:
    """Serve the webhooks and the visibility API when no other program's manager runs here.

    Until then that program may still use the certificate.

    keeping: the manager that runs the certificates.
    visibility: the context in which the visibility API is served.
    """
    await replica.alone.wait()
    async with visibility:
        await run_together(keeping.run(), *([webhooks.run()] if webhooks is not None else []))


async def _freeze_after_start(replica: Replica) -> None:
    """Wait until the replica has started, then exclude all existing Python objects from garbage collection.

    A collection over the objects in the caches would block for seconds.
    """
    await replica.started.wait()
    settle()


def _make_metrics_context(now: datetime, host: str) -> ssl.SSLContext:
    """Return a TLS context with a new self-signed certificate, as controller-runtime serves metrics by default."""
    authority = make_authority("muster-metrics-ca", now, _METRICS_LIFE)
    names = (host, "localhost")
    own = issue_certificate(
        authority, subject_of("muster-metrics"), ExtendedKeyUsageOID.SERVER_AUTH, now, _METRICS_LIFE, names
    )
    context = server_context()
    load_pair(context, own.certificate_pem, own.key_pem)
    return context
