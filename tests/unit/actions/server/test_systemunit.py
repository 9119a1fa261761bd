"""The systemd unit of a home: what it is called, where it lies, and what it says."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from muster.actions.errors import UserError
from muster.actions.server.systemunit import HEADER, Scope, Unit, is_current, render_unit


def unit(scope: Scope = "user", home: str = "/home/ada/.muster") -> Unit:
    return Unit(scope, Path(home), "ada", Path("/home/ada"))


@pytest.mark.parametrize(
    ("scope", "home", "path"),
    [
        ("user", "/home/ada/.muster", "/home/ada/.config/systemd/user/muster.service"),
        ("user", "/srv/muster", "/home/ada/.config/systemd/user/muster-srv-muster.service"),
        ("system", "/home/ada/.muster", "/etc/systemd/system/muster-home-ada-.muster.service"),
        ("system", "/srv/a-b c/é", r"/etc/systemd/system/muster-srv-a\x2db\x20c-\xc3\xa9.service"),
        ("system", "/.muster", r"/etc/systemd/system/muster-\x2emuster.service"),
    ],
)
def test_each_home_has_a_unit_of_its_own(scope: Scope, home: str, path: str) -> None:
    assert str(unit(scope, home).path) == path


@pytest.mark.skipif(shutil.which("systemd-escape") is None, reason="without systemd")
@pytest.mark.parametrize("home", ["/srv/muster", "/home/ada/.muster", "/a-b c/é", "/.x", "/a:b_c"])
def test_names_are_escaped_as_systemd_does(home: str) -> None:
    done = subprocess.run(["systemd-escape", "--path", home], capture_output=True, text=True, check=True)
    assert unit("system", home).name == f"muster-{done.stdout.strip()}.service"


def lines(scope: Scope, home: str = "/home/ada/.muster", version: int = 255, **environ: str) -> list[str]:
    return render_unit(unit(scope, home), "/opt/muster/bin/python", environ, version=version).splitlines()


def test_a_unit_of_a_user() -> None:
    text = lines("user")
    assert text[0] == HEADER
    start = 'ExecStart=:"/opt/muster/bin/python" "-m" "muster.cli" "up" "--data" "/home/ada/.muster"'
    assert {start, "WantedBy=default.target", "Restart=on-failure", "KillMode=process"} <= set(text)
    assert {"Type=notify", "TimeoutStartSec=infinity"} <= set(text), "systemd waits until the server serves"
    assert not [line for line in text if line.startswith(("User=", "After=", "Environment="))]


def test_a_unit_of_the_machine() -> None:
    text = lines("system", CUDA_VISIBLE_DEVICES="0,1")
    assert {"User=ada", "After=network-online.target nss-user-lookup.target", "WantedBy=multi-user.target"} <= set(text)
    assert 'Environment="CUDA_VISIBLE_DEVICES=0,1"' in text


@pytest.mark.parametrize(("version", "delegates"), [(249, False), (253, False), (254, True), (257, True)])
def test_limits_are_delegated_where_systemd_can_start_a_server_beside_its_containers(
    version: int, delegates: bool
) -> None:
    text = lines("user", version=version)
    assert ("Delegate=yes" in text, "DelegateSubgroup=muster-server" in text) == (delegates, delegates)


@pytest.mark.parametrize(
    ("former", "latter", "expected"),
    [
        ("", "", True),
        ("/opt/muster/bin/python", "/srv/other/bin/python", True),
        ("CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=1", True),
        ("Type=notify", "Type=exec", False),  # as earlier releases wrote
        ("DelegateSubgroup=muster-server\n", "", False),  # systemd was older at the installation
    ],
)
def test_a_unit_of_another_release_is_not_current(former: str, latter: str, expected: bool) -> None:
    text = "\n".join(lines("user", CUDA_VISIBLE_DEVICES="0")) + "\n"
    assert former in text
    assert is_current(text.replace(former, latter), unit(), version=255) == expected


def test_what_systemd_would_expand_or_split_is_passed_word_for_word() -> None:
    text = lines("user", home='/srv/50% "a" \\ $HOME')
    assert r'"--data" "/srv/50%% \"a\" \\ $HOME"' in next(line for line in text if line.startswith("ExecStart="))
    assert r'Description=Muster, a batch system, in /srv/50%% "a" \ $HOME' in text


@pytest.mark.parametrize("home", ["/srv/a\nExecStartPre=/bin/rm", "/srv/\x1b[2J", "/srv/\udce9"])
def test_a_home_whose_name_could_add_lines_is_refused(home: str) -> None:
    with pytest.raises(UserError, match="characters that a unit of systemd cannot name"):
        lines("user", home=home)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="without systemd")
@pytest.mark.parametrize("scope", ["user", "system"])
@pytest.mark.parametrize("home", ["/home/ada/.muster", '/srv/50% "a" \\ $HOME'])
def test_systemd_understands_each_line(tmp_path: Path, scope: Scope, home: str) -> None:
    text = render_unit(unit(scope, home), sys.executable, {"CUDA_VISIBLE_DEVICES": "0"}, version=0)
    (tmp_path / "muster.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", f"--{scope}", "verify", str(tmp_path / "muster.service")],
        env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "muster.service" not in done.stderr
    assert done.returncode == 0, done.stderr
