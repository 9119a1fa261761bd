"""The rules of probes and lifecycle hooks."""

from collections.abc import Callable
from typing import Any

from muster.api.core import (
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Probe,
    SleepAction,
    TCPSocketAction,
)
from muster.api.validation import names
from muster.api.validation.fields import (
    Errors,
    forbidden,
    invalid,
    make_errors,
    required,
    unsupported,
    validate_not_negative,
)

_REAL_TIME = [f"SIGRTMIN+{n}" for n in range(1, 16)] + [f"SIGRTMAX-{n}" for n in range(1, 15)]
STOP_SIGNALS = frozenset(_REAL_TIME) | {
    "SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO",
    "SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGRTMAX", "SIGRTMIN", "SIGSEGV",
    "SIGSTKFLT", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1",
    "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ",
}  # fmt: skip
_WINDOWS_STOP_SIGNALS = ("SIGKILL", "SIGTERM")


def validate_liveness_or_startup(path: str, probe: Probe | None) -> Errors:
    """Yield the errors in a liveness or startup probe, whose failure ends the container."""
    if probe is None:
        return
    yield from _validate_probe(path, probe)
    if probe.success_threshold != 1:
        yield invalid(f"{path}.successThreshold", probe.success_threshold, "must be 1")


def validate_readiness(path: str, probe: Probe | None) -> Errors:
    """Yield the errors in a readiness probe."""
    if probe is None:
        return
    yield from _validate_probe(path, probe)
    seconds = probe.termination_grace_period_seconds
    if seconds is not None:
        yield invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must not be set for readinessProbes")


def validate_lifecycle(path: str, hooks: Lifecycle, grace_seconds: int | None, os: str | None) -> Errors:
    """Check lifecycle hooks.

    grace_seconds: the grace period of the pod.
    os: the operating system that the pod declares.
    """
    if hooks.post_start is not None:
        yield from _validate_handler(f"{path}.postStart", hooks.post_start, grace_seconds)
    if hooks.pre_stop is not None:
        yield from _validate_handler(f"{path}.preStop", hooks.pre_stop, grace_seconds)
    signal = hooks.stop_signal
    if signal is None:
        return
    signals = {"linux": STOP_SIGNALS, "windows": _WINDOWS_STOP_SIGNALS}.get(os or "")
    if os is None:
        yield forbidden(f"{path}.stopSignal", "may not be set for containers with empty `spec.os.name`")
    elif signals is not None and signal not in signals:
        yield unsupported(f"{path}.stopSignal", signal, sorted(signals))


def validate_port(path: str, value: int | str) -> Errors:
    """Yield the errors in a port, which is a number or a name."""
    yield from make_errors(path, value, names.port_name(value) if isinstance(value, str) else names.port_number(value))


def _validate_probe(path: str, probe: Probe) -> Errors:
    yield from _validate_handler(path, probe, None)
    yield from validate_not_negative(f"{path}.initialDelaySeconds", probe.initial_delay_seconds)
    yield from validate_not_negative(f"{path}.timeoutSeconds", probe.timeout_seconds)
    yield from validate_not_negative(f"{path}.periodSeconds", probe.period_seconds)
    yield from validate_not_negative(f"{path}.successThreshold", probe.success_threshold)
    yield from validate_not_negative(f"{path}.failureThreshold", probe.failure_threshold)
    seconds = probe.termination_grace_period_seconds
    if seconds is not None and seconds <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0")


def _validate_handler(path: str, handler: Probe | LifecycleHandler, grace_seconds: int | None) -> Errors:
    actions: list[tuple[str, Any, Callable[[str, Any], Errors]]] = [
        ("exec", handler.exec, _validate_exec),
        ("httpGet", handler.http_get, _validate_http_get),
        ("tcpSocket", handler.tcp_socket, _validate_tcp_socket),
    ]
    if isinstance(handler, Probe):
        actions.append(("grpc", handler.grpc, _validate_grpc))
    else:
        actions.append(("sleep", handler.sleep, lambda place, action: _validate_sleep(place, action, grace_seconds)))
    given = [entry for entry in actions if entry[1] is not None]
    if not given:
        yield required(path, "must specify a handler type")
    for n, (field, action, rule) in enumerate(given):
        if n:
            yield forbidden(f"{path}.{field}", "may not specify more than 1 handler type")
        else:
            yield from rule(f"{path}.{field}", action)


def _validate_exec(path: str, action: ExecAction) -> Errors:
    if not action.command:
        yield required(f"{path}.command")


def _validate_http_get(path: str, action: HTTPGetAction) -> Errors:
    if not action.path:
        yield required(f"{path}.path")
    yield from validate_port(f"{path}.port", action.port)
    if action.scheme not in ("HTTP", "HTTPS"):
        yield unsupported(f"{path}.scheme", action.scheme, ("HTTP", "HTTPS"))
    for header in action.http_headers:
        yield from make_errors(f"{path}.httpHeaders", header.name, names.http_header(header.name))


def _validate_tcp_socket(path: str, action: TCPSocketAction) -> Errors:
    yield from validate_port(f"{path}.port", action.port)


def _validate_grpc(path: str, action: GRPCAction) -> Errors:
    yield from validate_port(f"{path}.port", action.port)


def _validate_sleep(path: str, action: SleepAction, grace_seconds: int | None) -> Errors:
    if grace_seconds is not None and not 0 <= action.seconds <= grace_seconds:
        sentence = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
        yield invalid(path, action.seconds, sentence)
