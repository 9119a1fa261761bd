"""The home directory of this user's embedded cluster: `$MUSTER_HOME`, by default `~/.muster`."""

import os
import pwd
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from muster.actions.errors import UserError
from muster.api.ours.unixusers import HOME_SOCKET
from muster.runtime.process import filelock
from muster.runtime.process.endings import is_ending
from muster.runtime.process.ownership import NotOursError, make_directory, require_directory, require_file

# The files whose content is secret or trusted. The server itself checks its certificate authority in `pki`.
_SECRETS = ("lock", "kubeconfig", "login.kubeconfig", "server.log*", "audit.log*", "store*", "up.json")

# After a server was killed, its lock is tried this many times, every 10 ms, until the kernel releases it.
_LOOKS = 500


class Home(Struct, frozen=True):
    """The home directory of one embedded cluster, and the paths of its files."""

    path: Path

    @classmethod
    def find(cls, environ: Mapping[str, str], override: str = "") -> "Home":
        """Return the home that the user named, or the default home. Raises `UserError`."""
        named = override or environ.get("MUSTER_HOME", "")
        try:
            return cls(Path(named).expanduser().absolute() if named else _find_user_home(environ) / ".muster")
        except (RuntimeError, FileNotFoundError) as error:
            where = "~ means no directory" if isinstance(error, RuntimeError) else "the working directory is gone"
            raise UserError(f"{named}: {where}; name a home with MUSTER_HOME or --data") from None

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, which only this user can read."""
        return self.path / "kubeconfig"

    def require_kubeconfig(self) -> None:
        """Raise `UserError` if the running server's kubeconfig is missing."""
        if not self.kubeconfig.exists():
            advice = "the server writes it when it starts. If it was removed: muster restart"
            raise UserError(f"{self.kubeconfig} does not exist: {advice}")

    @property
    def socket(self) -> Path:
        """The socket over which this user's commands reach the server, if the server has one."""
        return self.path / HOME_SOCKET

    def is_reached_by_socket(self) -> bool:
        """Return whether the server's socket leads to the same server, user and namespace as the kubeconfig.

        That is so unless the kubeconfig was changed. A socket that another user created is not accepted.
        """
        from muster.api.ours.writtenconfig import is_unchanged

        try:
            status = self.socket.lstat()
            is_ours = stat.S_ISSOCK(status.st_mode) and status.st_uid == os.geteuid()
            return is_ours and is_unchanged(self.kubeconfig.read_bytes())
        except OSError:
            return False

    @property
    def login(self) -> Path:
        """The kubeconfig of this user for a cluster that another user runs.

        The command from `muster user add` writes it.
        """
        return self.path / "login.kubeconfig"

    def uses_login(self) -> bool:
        """Return whether commands connect to the cluster that `login` names.

        They do if no server runs in this home, and the login is newer than the last server of this home. If a server
        was started after the login, commands connect to it, even while it is down.
        """
        stored, started = _find_write_time(self.login), _find_write_time(self.options)
        if stored is None or (started is not None and stored <= started):
            return False
        return self.server_pid() is None  # checked last, because it is slow and few homes have a login

    @property
    def log(self) -> Path:
        """The log file of a detached server."""
        return self.path / "server.log"

    @property
    def options(self) -> Path:
        """The file with the options of the newest server, which `muster up` reuses."""
        return self.path / "up.json"

    def server_pid(self) -> int | None:
        """Return the PID of the process that holds the directory's lock, or None if no process holds it.

        Only the lock counts, whatever other files contain. Raises `UserError` for a home that another user owns or can
        change, because its files cannot be trusted.
        """
        self.require_ours()
        try:
            lock = os.open(self.path / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            pid = _read_holder(lock)
            for _ in range(_LOOKS):
                if pid is None or not is_ending(pid):
                    break
                if not Path(f"/proc/{pid}").exists():
                    # The process has ended and released its lock, or it is in another PID namespace than this pod.
                    return _read_holder(lock)
                time.sleep(0.01)
                pid = _read_holder(lock)
            return pid
        finally:
            os.close(lock)

    def make(self) -> None:
        """Create the directory, accessible to this user only. Raises `UserError`."""
        with self._explain_errors():
            make_directory(self.path)

    def require_ours(self) -> None:
        """Raise `UserError` if another user owns or can change the home."""
        if self._is_empty():  # an empty home contains nothing to trust, and a server restricts its mode at the start
            return
        with self._explain_errors():
            require_directory(self.path)
            for secret in _SECRETS:
                for file in self.path.glob(secret):
                    require_file(file)

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except NotOursError as error:
            raise UserError(str(error)) from None
        except OSError as error:
            advice = "choose another place with MUSTER_HOME or --data"
            raise UserError(f"cannot use {self.path}: {error.strerror}; {advice}") from error

    def _is_empty(self) -> bool:
        try:
            return not any(self.path.iterdir())
        except FileNotFoundError:
            return True
        except OSError:
            return False


def _find_user_home(environ: Mapping[str, str]) -> Path:
    """Return the user's home directory. Raises `UserError` if neither HOME nor the password database names it."""
    if named := environ.get("HOME"):
        return Path(named).absolute()
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise UserError("HOME is not set; name a home with MUSTER_HOME or --data") from None


def _read_holder(lock: int) -> int | None:
    """Return the PID of the process that holds the lock, or None if the lock is free."""
    if not filelock.is_taken(lock):
        return None
    text = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None


def _find_write_time(path: Path) -> int | None:
    """Return a file's modification time in nanoseconds; None if the file is missing or not accessible."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
