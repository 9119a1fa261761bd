"""Read the resource limits that a login sets, from the files of pam_limits: limits.conf(5).

An entry for the user wins over an entry for a group of the user, which wins over an entry for all users. Of entries of
the same rank the last wins.
"""

import resource
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

_DIRECTORY = Path("/etc/security")
_KILOBYTE, _MINUTE = 1024, 60
# The limits that a process can have, by their names in the files, with the kernel's number and the unit of a value.
_ITEMS = {
    "core": (resource.RLIMIT_CORE, _KILOBYTE),
    "data": (resource.RLIMIT_DATA, _KILOBYTE),
    "fsize": (resource.RLIMIT_FSIZE, _KILOBYTE),
    "memlock": (resource.RLIMIT_MEMLOCK, _KILOBYTE),
    "nofile": (resource.RLIMIT_NOFILE, 1),
    "rss": (resource.RLIMIT_RSS, _KILOBYTE),
    "stack": (resource.RLIMIT_STACK, _KILOBYTE),
    "cpu": (resource.RLIMIT_CPU, _MINUTE),
    "nproc": (resource.RLIMIT_NPROC, 1),
    "as": (resource.RLIMIT_AS, _KILOBYTE),
}
_UNLIMITED = ("unlimited", "infinity", "-1")
_KINDS = {"soft": ("soft",), "hard": ("hard",), "-": ("soft", "hard")}


class Login(Struct, frozen=True):
    """The name and the groups of a user, which the entries of the limits files name."""

    name: str
    groups: Collection[str]

    def rank(self, domain: str) -> int:
        """Return how closely an entry's domain matches the user, from 1 to 3; 0 if it does not match."""
        if domain == self.name:
            return 3
        if domain.startswith("@"):
            return 2 if domain[1:] in self.groups else 0
        return 1 if domain == "*" else 0


def read_limits(login: Login, directory: Path = _DIRECTORY) -> list[tuple[int, int, int]]:
    """Return the limits of a user as arguments of setrlimit. Limits that no entry sets keep their current values.

    A file that cannot be read has no entries.
    """
    files = [directory / "limits.conf", *sorted(directory.glob("limits.d/*.conf"))]
    lines = (line for file in files for line in _read_lines(file))
    limits = []
    for number, bounds in parse_limits(lines, login).items():
        soft, hard = resource.getrlimit(number)
        limits.append(fit_limit(bounds.get("soft", soft), bounds.get("hard", hard), number))
    return limits


def fit_limit(soft: int, hard: int, number: int) -> tuple[int, int, int]:
    """Return the arguments of setrlimit for a limit. A soft limit above the hard limit is lowered to it."""
    if hard != resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft > hard):
        soft = hard
    return number, soft, hard


def parse_limits(lines: Iterable[str], login: Login) -> dict[int, dict[str, int]]:
    """Return the limits that entries set for a user, by the kernel's number and the kind, `soft` or `hard`.

    Invalid entries are skipped, as by pam_limits.
    """
    ranks: dict[tuple[int, str], int] = {}
    bounds: dict[int, dict[str, int]] = {}
    for domain, kinds, (number, unit), text in _parse_entries(lines):
        rank = login.rank(domain)
        for kind in kinds if rank else ():
            if rank >= ranks.get((number, kind), 0):
                ranks[number, kind] = rank
                bounds.setdefault(number, {})[kind] = resource.RLIM_INFINITY if text in _UNLIMITED else int(text) * unit
    return bounds


def _parse_entries(lines: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...], tuple[int, int], str]]:
    """Yield the domain, kinds, item and value of each valid entry. pam_limits skips the others, too."""
    for line in lines:
        words = line.partition("#")[0].split()
        if len(words) != 4 or words[1] not in _KINDS or words[2] not in _ITEMS:
            continue
        text = words[3]
        if text in _UNLIMITED or (text.isascii() and text.isdecimal() and len(text) < 16):
            yield words[0], _KINDS[words[1]], _ITEMS[words[2]], text


def _read_lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []
