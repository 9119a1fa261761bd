"""The parameters of `pods/exec`, `pods/attach` and `pods/portforward`."""

from muster.api.meta import Struct


class PodExecOptions(Struct):
    """Which command to run in a container, and which of its streams to join.

    container: may be left out if the pod has but one.
    command: the program and its arguments; no shell looks at them.
    tty: its streams are a terminal.
    """

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    container: str = ""
    command: tuple[str, ...] = ()


class PodAttachOptions(Struct):
    """Which streams of a container's own process to join."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    container: str = ""


class PodPortForwardOptions(Struct):
    """Which ports to connect to; over SPDY each connection names its own."""

    ports: tuple[int, ...] = ()
