"""The parameters of `pods/exec`, `pods/attach` and `pods/portforward`."""

from muster.api.meta import Struct


class PodExecOptions(Struct):
    """The command to run in a container, and the streams to attach to.

    container: the name of the container; may be empty if the pod has only one.
    command: the program and its arguments, without a shell.
    tty: whether the streams are a terminal.
    """

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    container: str = ""
    command: tuple[str, ...] = ()


class PodAttachOptions(Struct):
    """The streams of a container's main process to attach to."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    container: str = ""


class PodPortForwardOptions(Struct):
    """The ports to connect to. Over SPDY each connection names its own port."""

    ports: tuple[int, ...] = ()
