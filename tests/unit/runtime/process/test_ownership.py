"""What others could change, read or have made is told from what is ours alone."""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.runtime.process.ownership import (
    NotOursError,
    find_closed,
    make_directory,
    require_directory,
    require_file,
    require_way,
)

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give files away")
SOMEBODY = 54321


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory and a file in it as they should be, two below one of ours."""
    home = tmp_path / "way" / "home"
    home.mkdir(parents=True, mode=0o700)
    (home / "file").touch(mode=0o600)
    (tmp_path / "way").chmod(0o755)
    return home


def link_of_somebody(home: Path) -> None:
    home.rename(home.with_name("real"))
    home.symlink_to("real")
    os.chown(home, SOMEBODY, SOMEBODY, follow_symlinks=False)


def link_into_open_ground(home: Path) -> None:
    ground = home.parent / "ground"
    ground.mkdir()
    ground.chmod(0o777)
    home.rename(ground / "real")
    home.symlink_to(ground / "real")


def own_link(home: Path) -> None:
    home.rename(home.with_name("real"))
    home.symlink_to(Path("..") / "way" / "real")


CHANGES: list[tuple[str, Callable[[Path], object], str]] = [
    ("as it should be", lambda home: None, ""),
    ("a link of our own", own_link, ""),
    ("a way that others may read", lambda home: home.parent.chmod(0o755), ""),
    ("a way like /tmp", lambda home: home.parent.chmod(0o1777), ""),
    ("a way that others may write", lambda home: home.parent.chmod(0o777), r"way, on the way to .*mode 0777"),
    ("a link into what others may write", link_into_open_ground, r"ground, on the way to .*mode 0777"),
    ("readable by others", lambda home: home.chmod(0o704), r"mode 0704\).*chmod 700 .*/home$"),
    ("writable by the group", lambda home: home.chmod(0o720), r"mode 0720\).*chmod 700 .*/home$"),
    ("only to be passed through", lambda home: home.chmod(0o711), r"mode 0711\).*chmod 700 .*/home$"),
]


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES])
def test_directories(home: Path, change: Callable[[Path], object], message: str) -> None:
    change(home)
    if message:
        with pytest.raises(NotOursError, match=message):
            require_directory(home)
    else:
        require_directory(home)


@AS_ROOT
@pytest.mark.parametrize(
    ("give_away", "message"),
    [
        (
            lambda home: os.chown(home, SOMEBODY, 0),
            f"home belongs to user {SOMEBODY}, and you are root: choose",
        ),
        (lambda home: os.chown(home.parent, SOMEBODY, 0), f"way, on the way to .*, belongs to user {SOMEBODY}"),
        (link_of_somebody, f"home is a link of user {SOMEBODY}"),
    ],
)
def test_what_is_anothers(home: Path, give_away: Callable[[Path], object], message: str) -> None:
    give_away(home)
    with pytest.raises(NotOursError, match=message):
        require_directory(home)


def test_seen_by_another_user_all_of_it_is_anothers(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)
    for require in (require_directory, require_file):
        with pytest.raises(NotOursError, match="belongs to"):
            require(home if require is require_directory else home / "file")


@AS_ROOT
def test_who_is_no_longer_themselves_under_sudo_is_told_how(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(home, SOMEBODY, 0)
    monkeypatch.setenv("SUDO_USER", "them")
    with pytest.raises(NotOursError, match="under sudo, sudo -H takes root's own; choose another"):
        require_directory(home)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666])
def test_files_that_others_may_read_or_write(home: Path, mode: int) -> None:
    (home / "file").chmod(mode)
    with pytest.raises(NotOursError, match=rf"open to others \(mode {mode:04o}\).*chmod 600 .*/file$"):
        require_file(home / "file")


def test_the_remedy_can_be_typed_as_it_stands_and_says_what_a_link_leads_to(home: Path) -> None:
    odd = home / "of mine"
    odd.write_text("")
    odd.chmod(0o644)
    (home / "link").symlink_to(odd)
    told = rf"link, a link to {odd}, is open to others \(mode 0644\).*: chmod 600 '{odd}'$"
    with pytest.raises(NotOursError, match=told):
        require_file(home / "link")
    with pytest.raises(NotOursError, match=rf"^{odd} is open to others \(mode 0644\).*: chmod 600 '{odd}'$"):
        require_file(odd)


def test_files(home: Path) -> None:
    require_file(home / "file")
    require_file(home / "there is none")
    require_file(home / "nor" / "such a directory")
    os.mkfifo(home / "pipe", 0o600)
    for other in ("pipe", "."):
        with pytest.raises(NotOursError, match="is not a regular file"):
            require_file(home / other)


def test_links_that_lead_nowhere_are_no_endless_work(home: Path) -> None:
    (home / "a").symlink_to("b")
    (home / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        require_directory(home / "a")


def test_an_empty_directory_is_closed_and_a_full_one_is_not_touched(tmp_path: Path) -> None:
    for name in ("new", "empty", "full"):
        made = tmp_path / name
        if name != "new":
            made.mkdir()
            made.chmod(0o755)
        if name == "full":
            (made / "file").touch()
            with pytest.raises(NotOursError, match="mode 0755"):
                make_directory(made)
        else:
            make_directory(made)
        assert stat.S_IMODE(made.stat().st_mode) == (0o755 if name == "full" else 0o700)


@AS_ROOT
@pytest.mark.parametrize("mode", [0o755, 0o1775, 0o1777])
@pytest.mark.parametrize("place", ["socket", "d/socket", "link"])
def test_in_a_user_namespace_nobody_is_root_where_only_root_can_write(
    mode: int, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.runtime.process.ownership._is_in_user_namespace", lambda: True)
    with tempfile.TemporaryDirectory(dir="/run") as name:
        (Path(name) / "d").mkdir()
        (Path(name) / "d" / "socket").touch()
        (Path(name) / "socket").touch()
        (Path(name) / "link").symlink_to("d/socket")
        for file in (*Path(name).rglob("*"), Path(name)):
            os.chown(file, 65534, 65534, follow_symlinks=False)
        Path(name).chmod(mode)
        if mode == 0o755:
            require_way(Path(name) / place)
        else:
            with pytest.raises(NotOursError, match="anybody may have made"):
                require_way(Path(name) / place)


def test_what_keeps_others_from_a_program_is_found_also_behind_links() -> None:
    program = shutil.which("env")
    assert program
    assert find_closed(Path(program)) is None
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # everybody may pass through /tmp, and not through `tmp_path`
        place = Path(name)
        place.chmod(0o755)
        closed = place / "closed"
        closed.mkdir(mode=0o700)
        shutil.copy(program, closed / "python")
        (place / "python").symlink_to(closed / "python")
        assert find_closed(place / "python") == closed
        closed.chmod(0o711)
        assert find_closed(place / "python") is None
