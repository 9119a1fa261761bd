"""The limits of a login, as limits.conf(5) says."""

import resource
from pathlib import Path

import pytest

from muster.runtime.process.loginlimits import Login, fit_limit, parse_limits, read_limits

ADA = Login("ada", ("lab", "ada"))
NOFILE, MEMLOCK, CPU = resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_CPU
ENDLESS = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("", {}),
        ("* soft nofile 10", {NOFILE: {"soft": 10}}),
        ("ada - nofile 10  # open files", {NOFILE: {"soft": 10, "hard": 10}}),
        ("bob - nofile 10\n@staff - nofile 11", {}),
        ("@lab hard memlock 64", {MEMLOCK: {"hard": 65536}}),
        ("ada hard memlock unlimited", {MEMLOCK: {"hard": ENDLESS}}),
        ("ada soft cpu 2", {CPU: {"soft": 120}}),
        ("ada soft nofile 1\nada soft nofile 2", {NOFILE: {"soft": 2}}),
        ("ada soft nofile 1\n@lab soft nofile 2\n* - nofile 3", {NOFILE: {"soft": 1, "hard": 3}}),
        ("* soft nofile 3\n@lab soft nofile 2", {NOFILE: {"soft": 2}}),
        ("# ada soft nofile 1\nada soft\nada both nofile 1\nada soft maxlogins 1\nada soft nofile many", {}),
        ("ada soft nofile -2\nada soft nofile ١\n%lab soft nofile 1\nada soft nofile " + "9" * 30, {}),
    ],
)
def test_the_closest_entry_counts_and_bad_ones_do_not(text: str, limits: dict[int, dict[str, int]]) -> None:
    assert parse_limits(text.splitlines(), ADA) == limits


@pytest.mark.parametrize(
    ("soft", "hard", "fitting"),
    [
        (1, 2, (1, 2)),
        (3, 2, (2, 2)),
        (ENDLESS, 2, (2, 2)),
        (3, ENDLESS, (3, ENDLESS)),
        (ENDLESS,) * 2 + ((ENDLESS,) * 2,),
    ],
)
def test_the_soft_limit_is_at_most_the_hard_one(soft: int, hard: int, fitting: tuple[int, int]) -> None:
    assert fit_limit(soft, hard, NOFILE) == (NOFILE, *fitting)


def test_later_files_win_and_missing_ones_say_nothing(tmp_path: Path) -> None:
    assert read_limits(ADA, tmp_path) == []
    (tmp_path / "limits.conf").write_text("ada - nofile 10\n")
    (tmp_path / "limits.d").mkdir()
    (tmp_path / "limits.d" / "20.conf").write_text("ada soft nofile 7\n")
    (tmp_path / "limits.d" / "10.conf").write_text("ada soft nofile 8\n")
    (tmp_path / "limits.d" / "30.txt").write_text("ada soft nofile 9\n")
    assert read_limits(ADA, tmp_path) == [(NOFILE, 7, 10)]
