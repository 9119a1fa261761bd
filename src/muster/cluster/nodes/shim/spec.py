"""Define the specs that the server passes to shims. A spec is a marshalled dict in a file without a name."""

from typing import TypedDict


class ShimAccount(TypedDict):
    """The Unix account that a shim runs as, if the node belongs to a system server, which itself runs as the superuser.

    limits: resource limits, each as its number, soft value and hard value.
    """

    uid: int
    gid: int
    groups: list[int]
    limits: list[tuple[int, int, int]]  # resource, soft limit, hard limit, as for setrlimit


class ProgramSpec(TypedDict):
    """A program to run: its arguments, environment, user and rights."""

    identity: ShimAccount | None  # assumed before any other step; None to keep this user

    argv: list[bytes]
    env: list[tuple[bytes, bytes]]
    working_directory: bytes  # empty for the present one
    umask: int
    ids: tuple[int, int, list[int]] | None  # uid, gid, groups to assume; None to keep this user's
    no_new_privileges: bool
    dropped: list[int]  # capabilities that no program gets
    writable: list[str] | None  # everything else is read-only, except /dev, /proc and /sys; None to change nothing
    cgroups: list[str]  # the cgroups that the processes join, by their directories
    cpus: list[int]  # the CPUs on which the processes may run; none for all


class Spec(ProgramSpec):
    """The instructions of a shim that runs one attempt of one container."""

    directory: str  # the attempt's directory, with `state`, `log`, `log.1`, ...
    isolation: str  # namespaces | user-namespaces | bubblewrap | none
    own_pids: bool  # whether there is a pid namespace
    bubblewrap: list[str]  # the command that makes the namespaces and then starts the launcher with `inside`
    mounts: list[tuple[str, ...]]  # see `muster.cluster.nodes.volumes.mounts`
    hostname: str
    stdin: bool  # whether its standard input stays open, for clients to write to
    stdin_once: bool  # whether that ends with the first of these clients; a terminal is hung up when the client leaves
    tty: bool  # whether its standard streams are a terminal
    log_bytes: int  # size at which the log is rotated
    log_files: int  # how many log files are kept, including the current one
    log_patience: float  # seconds for which the output waits for a reader of the oldest file; negative for ever
    report: int  # descriptor for the lines `pid N`, and then `started`, `claimed` or `error ...`
    lifeline: int  # descriptor whose end of file means that the server has ended and everything must end; -1 for none
    fence: int  # descriptor of the node's file that says when the container must end; -1 for none
    patience: float  # seconds that the pod may run after its node's Lease; see `.fence`


class Reserved(TypedDict):
    """The instructions of a shim that is started in reserve, before the spec of its container exists.

    The server later writes the spec to `spec`, and then a byte to `word`.
    """

    isolation: str  # as in the spec to come
    own_pids: bool
    spec: int  # descriptor to which the server writes the spec to come
    word: int  # descriptor from which the shim reads a byte once the spec is written; its end: the shim is not wanted
    report: int  # as in the spec to come
    lifeline: int
    fence: int


class ExecSpec(ProgramSpec):
    """The instructions to run a command inside a running container."""

    pidfd: int  # the shim
    namespaces: int  # CLONE_* flags of the namespaces to join; 0 for none
    report: int  # descriptor for the reason why the command cannot be run
    terminal: bool  # whether standard input is a terminal that the command is to control
