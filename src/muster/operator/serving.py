"""Serve a replica's HTTPS endpoints for API servers, with one certificate for all of them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from muster.api.config import Configuration
from muster.operator.addresses import BadAddressError
from muster.runtime.control.manager import Manager
from muster.runtime.tasks import cancel
from muster.webhooks.endpoints import VISIBILITY_SERVICE
from muster.webhooks.keeping import Certificates

# Host names in addition to the Services': an API server on the same machine connects to loopback.
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

log = logging.getLogger(__name__)


def make_certificates(manager: Manager, settings: Configuration) -> Certificates:
    """Return the certificates of all HTTPS endpoints, run by the manager."""
    managed = settings.internal_cert_management
    services = (managed.webhook_service_name, VISIBILITY_SERVICE)
    names = [name for service in services for name in service_names(service, settings.namespace)]
    server_certificates = Certificates(
        manager, settings.namespace, managed.webhook_secret_name, (*names, *_LOOPBACK), ours=managed.enable
    )
    manager.add(server_certificates)
    return server_certificates


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the host names of a Service; API servers check the certificate against the first."""
    return tuple(f"{service}.{namespace}{rest}" for rest in (".svc", ".svc.cluster.local", ""))


@asynccontextmanager
async def run_manager(name: str, manager: Manager, *work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Run a manager and other tasks in the background until the context closes; log failures and continue.

    name: the name in the log.
    """
    tasks = [asyncio.create_task(_run_and_log(name, each)) for each in (manager.run, *work)]
    try:
        yield
    finally:
        await manager.stop()
        await cancel(tasks)


async def _run_and_log(name: str, work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except (BadAddressError, OSError) as error:
        log.warning("no %s: %s", name, error)
    except Exception:
        log.exception("no %s any longer", name)
