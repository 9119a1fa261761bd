"""Where the embedded cluster of this user lives: `$MUSTER_HOME`, by default `~/.muster`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.runtime import filelock


@dataclass(frozen=True, slots=True)
class Home:
    """The directory of one embedded cluster, and what lies in it."""

    path: Path

    @classmethod
    def find(cls, environ: Mapping[str, str], override: str = "") -> "Home":
        """What the user named, or the usual place."""
        named = override or environ.get("MUSTER_HOME") or str(Path.home() / ".muster")
        return cls(Path(named).expanduser().absolute())

    @property
    def kubeconfig(self) -> Path:
        """The administrator's way in, 0600."""
        return self.path / "kubeconfig"

    @property
    def log(self) -> Path:
        """What a detached server writes."""
        return self.path / "server.log"

    def server_pid(self) -> int | None:
        """The process that holds the directory now, whatever stands in files: the lock tells."""
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
