"""Notify the service manager that started this process, by the protocol of sd_notify(3)."""

import logging
import os
import socket

# The environment variable with the manager's address; "@" stands for the zero byte of an abstract address.
_VARIABLE = "NOTIFY_SOCKET"

log = logging.getLogger(__name__)


def report_readiness() -> None:
    """Notify the service manager, if there is one, that this process serves.

    Remove its address from the environment.
    """
    address = os.environ.pop(_VARIABLE, "")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
            door.sendto(b"READY=1", f"\0{address[1:]}" if address.startswith("@") else address)
    except OSError as error:
        log.warning("the service manager does not learn that the server serves: %s: %s", address, error)
