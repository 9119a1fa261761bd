"""Where the embedded cluster of this user lives: `$MUSTER_HOME`, by default `~/.muster`."""

import os
import pwd
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.actions.errors import UserError
from muster.runtime.process import filelock
from muster.runtime.process.ownership import NotOursError, make_directory, require_directory, require_file

# What lies in a home and tells or decides something; the server looks after its authority in `pki` itself.
_SECRETS = ("lock", "kubeconfig", "server.log*", "audit.log*", "store*")


@dataclass(frozen=True, slots=True)
class Home:
    """The directory of one embedded cluster, and what lies in it."""

    path: Path

    @classmethod
    def find(cls, environ: Mapping[str, str], override: str = "") -> "Home":
        """What the user named, or the usual place."""
        named = override or environ.get("MUSTER_HOME", "")
        try:
            return cls(Path(named).expanduser().absolute() if named else _of_user(environ) / ".muster")
        except (RuntimeError, FileNotFoundError) as error:
            where = "~ means no directory" if isinstance(error, RuntimeError) else "the working directory is gone"
            raise UserError(f"{named}: {where}; name a home with MUSTER_HOME or --data") from None

    @property
    def kubeconfig(self) -> Path:
        """The administrator's way in, 0600."""
        return self.path / "kubeconfig"

    @property
    def log(self) -> Path:
        """What a detached server writes."""
        return self.path / "server.log"

    def server_pid(self) -> int | None:
        """The process that holds the directory now, whatever stands in files: the lock tells.

        Raises `UserError` for a home of another user, or one that others can change: it may say anything.
        """
        self.require_ours()
        try:
            lock = os.open(self.path / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if not filelock.is_taken(lock):
                return None
            text = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
            return int(text) if text.isdigit() else None
        finally:
            os.close(lock)

    def make(self) -> None:
        """Make the directory, for this user only. Raises `UserError`."""
        with self._explained():
            make_directory(self.path)

    def require_ours(self) -> None:
        """Refuse a home that is not this user's alone. Raises `UserError`."""
        if self._is_empty():  # then there is nothing to be believed, and who starts a server closes it
            return
        with self._explained():
            require_directory(self.path)
            for secret in _SECRETS:
                for file in self.path.glob(secret):
                    require_file(file)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except NotOursError as error:
            raise UserError(str(error)) from None
        except OSError as error:
            raise UserError(f"cannot use {self.path}: {error.strerror}") from error

    def _is_empty(self) -> bool:
        try:
            return not any(self.path.iterdir())
        except FileNotFoundError:
            return True
        except OSError:
            return False


def _of_user(environ: Mapping[str, str]) -> Path:
    """Raises `UserError` if nothing says where it is."""
    if named := environ.get("HOME"):
        return Path(named).absolute()
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise UserError("HOME is not set; name a home with MUSTER_HOME or --data") from None
