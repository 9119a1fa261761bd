"""Whatever becomes of stdin, stdout and stderr: no traceback, no output lost in silence, and the code of a shell."""

import os
import pty
import pwd
import signal
import subprocess
import sys

import pytest

FULL = "Error: cannot write the output: No space left on device\n"
CLOSED = "Error: cannot write the output: Bad file descriptor\n"


def shell(muster, script, **options):
    """Run a line of bash; the code is that of its first command."""
    line = f"{script}; exit ${{PIPESTATUS[0]}}"
    return subprocess.run(
        ["bash", "-c", line], env=muster.env(), capture_output=True, text=True, timeout=60, check=False, **options
    )


@pytest.mark.parametrize(
    ("script", "code", "err"),
    [
        ("muster --help > /dev/full", 1, FULL),
        ("muster --help >&-", 1, CLOSED),
        ("muster --help >&- 2>&-", 1, ""),
        ("muster ps 2>/dev/full", 1, ""),
        ("muster ps 2>&-", 1, ""),
        ("muster ps 0>&- 1>&- 2>&-", 1, ""),
        ("muster run --dry-run -- echo x > /dev/full", 1, FULL),
        ("muster run --dry-run -- $(seq 30000) | head -c 1", 141, ""),
        ("muster --version <&-", 0, ""),
        ("muster apply -f - <&-", 1, "Error: stdin: Bad file descriptor\n"),
        ("muster run -- echo x > /dev/full", 1, FULL),
        ("muster run -- echo x >&-", 1, CLOSED),
        ("muster run -- yes | head -1", 141, ""),
        ("muster run -- sh -c 'echo lost >&2' 2>/dev/full", 1, ""),
        ("muster run -- sh -c 'echo nobody wants it >&2' 2>&-", 0, ""),
    ],
)
def test_streams_that_do_not_take_or_give(muster, script, code, err):
    done = shell(muster, script)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "".join(line for line in done.stderr.splitlines(keepends=True) if line.startswith("Error")) == err


def test_a_job_that_is_cancelled_while_it_starts_leaves_no_word_of_a_controller(muster):
    said = [
        line for _ in range(3) for line in shell(muster, "muster run -- seq 100000 > /dev/full").stderr.splitlines()
    ]
    assert {line for line in said if not line.endswith(": running")} == {FULL.rstrip()}


def test_a_detached_job_goes_on_without_a_reader_of_its_name(shared_up):
    done = shell(shared_up, "muster run --detach --name left -- sleep 1000 > /dev/full")
    assert (done.returncode, done.stderr.splitlines()[-1] + "\n") == (1, FULL)
    assert "Cancelled" not in shared_up("ps", "left").stdout


def test_a_job_whose_output_nobody_reads_any_more_does_not_run_on(shared_up):
    assert shell(shared_up, "muster run --name loud -- yes | head -1").stdout == "y\n"
    shared_up("wait", "loud", check=False)
    assert "Cancelled" in shared_up("ps", "loud").stdout


@pytest.mark.parametrize("command", ["logs -f", "ps -w"])
def test_what_only_shows_ends_with_its_reader(shared_up, command):
    """Also where there is nothing more to write: the job has said all, and stays as it is."""
    name = shared_up("run", "--detach", "--", "sh", "-c", "echo begun; exec sleep 1000").stdout.strip()
    done = shell(shared_up, f"muster {command} {name} | head -1")
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (141, 1, "")


def test_a_program_that_has_no_more_to_say_ends_as_it_would_by_itself(muster):
    done = shell(muster, "muster run --name brief -- sh -c 'echo begun; sleep 2' | head -1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "begun\n", "brief: running\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_the_terminal_cannot_show_is_escaped(muster, encoding):
    muster.environment = {"PYTHONIOENCODING": encoding}
    done = muster("run", "--dry-run", "--", "echo", "\N{SNOWMAN}")
    assert "\\u2603" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([b"run", b"--", b"echo", b"\xff"], "argument 1 of the command is not UTF-8"),
        ([b"run", b"--env", b"A=\xff", b"--", b"true"], "the variable A is not UTF-8"),
        ([b"apply", b"-f", b"\xff.yaml"], "No such file or directory"),
        ([b"logs", b"\xff"], "no cluster"),
    ],
)
def test_arguments_that_are_no_text(muster, arguments, message):
    done = subprocess.run([muster.command, *arguments], env=muster.env(), capture_output=True, check=False, timeout=60)
    assert done.returncode != 0
    assert message in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_utf8_is_read_where_python_reads_ascii_alone(muster, tmp_path):
    (tmp_path / "zürich").mkdir()
    muster.environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "A": "✓"}
    done = shell(muster, f"cd '{tmp_path}/zürich' && muster run --env A -- sh -c 'echo \"$A $0 $PWD\"' ü")
    assert (done.returncode, done.stdout) == (0, f"✓ ü {tmp_path}/zürich\n")


def test_a_cluster_of_the_run_itself_has_the_files_for_many_workers(muster):
    done = shell(muster, "ulimit -S -n 100; timeout -k 1 50 muster run --workers 24 -- echo here | sort -u | wc -l")
    assert done.stdout == "24\n", done.stderr[-2000:]


def test_a_worker_of_a_caller_without_a_home_gets_that_of_the_account(muster):
    done = shell(muster, "env -u HOME muster run -- sh -c 'echo $HOME'")  # as a system unit of systemd runs it
    assert (done.returncode, done.stdout) == (0, f"{pwd.getpwuid(os.getuid()).pw_dir}\n")


@pytest.mark.parametrize("zone", ["XXX24", "XXX-23:30YYY"])  # POSIX allows both; summer time is an hour more
def test_a_zone_a_day_from_utc_is_taken_as_utc(muster, zone):
    muster("up", "--detach", "--port", "0")
    muster("run", "--name", "first", "--", "true")
    muster.environment = {"TZ": zone}
    done = shell(muster, "muster history --since 1h -o wide | grep -c first")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert done.stderr == f"TZ={zone} is a day or more from UTC: times are in UTC\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_run_that_is_told_to_end_says_by_which_signal(muster, number):
    process = muster.start("run", "--", "sh", "-c", "echo started; sleep 1000")
    try:
        assert process.stdout.readline() == "started\n"
        process.send_signal(number)
        process.communicate(timeout=40)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 128 + number


def test_a_terminal_that_closes_ends_the_job_and_leaves_nothing(muster, tmp_path):
    script = f"trap 'touch {tmp_path}/ended; exit' TERM; touch {tmp_path}/began; while :; do echo x; sleep 0.1; done"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(muster.command, [muster.command, "run", "--", "sh", "-c", script], muster.env())
    while not (tmp_path / "began").exists():
        os.read(terminal, 1000)
    os.close(terminal)
    os.waitpid(pid, 0)
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize(
    ("number", "options", "most"), [(signal.SIGINT, [], 1), (signal.SIGTERM, ["--detach", "--elastic", "1:1"], 2)]
)
def test_a_run_that_is_told_to_end_while_it_submits_leaves_nothing_that_runs(shared_up, number, options, most):
    """Before and after each of its requests, two for a Job with its Service: what was asked for comes to be."""
    for request in range(1, most + 1):
        for moment in ("before", "after"):
            interrupted = f"""
import os, sys
from muster.cli.main import main
from muster.runtime.client import Client
create, requests = Client.create, []

async def interrupted(*arguments, **options):
    requests.append(arguments)
    if len(requests) == {request} and {moment == "before"}:
        os.kill(os.getpid(), {number})
    created = await create(*arguments, **options)
    if len(requests) == {request} and {moment == "after"}:
        os.kill(os.getpid(), {number})
    return created

Client.create = interrupted
main(sys.argv[1:])
"""
            name = f"early-{number}-{request}-{moment}"
            done = subprocess.run(
                [sys.executable, "-c", interrupted, "run", *options, "--name", name, "--", "sleep", "1000"],
                env=shared_up.env(),
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert done.returncode == 128 + number, done.stderr
            assert f"cancelling {name} (again to leave at once)" in done.stderr
            assert (done.stdout, "Traceback" in done.stderr) == ("", False)
            assert "Cancelled" in shared_up("ps", name).stdout


def test_a_run_that_is_told_to_end_while_it_says_that_it_leaves_cancels_the_job(shared_up):
    interrupted = f"""
import os, sys
from muster.cli import terminal
from muster.cli.main import main
from muster.cli.terminal import output

say = output.say

def interrupted(text):
    say(text)
    if text.startswith("follow it:"):
        os.kill(os.getpid(), {signal.SIGTERM})

output.say = interrupted
main(sys.argv[1:])
"""
    line = [sys.executable, "-c", interrupted, "run", "--detach", "--name", "leaves", "--", "sleep", "1000"]
    done = subprocess.run(line, env=shared_up.env(), capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, "leaves\n"), done.stderr
    assert "cancelling leaves (again to leave at once)" in done.stderr
    assert "Cancelled" in shared_up("ps", "leaves").stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_what_shows_and_is_told_to_end_while_it_does_says_no_more(shared_up, number):
    """Whichever of its tasks runs when it is told."""
    name = shared_up("run", "--detach", "--", "sh", "-c", "echo begun; exec sleep 1000").stdout.strip()
    interrupted = f"""
import os, sys
from muster.cli.main import main
from muster.cli.terminal.printing import Printer

async def interrupted(*arguments):
    os.kill(os.getpid(), {number})

Printer.show = interrupted
main(sys.argv[1:])
"""
    command = [sys.executable, "-c", interrupted, "logs", "-f", name]
    done = subprocess.run(command, env=shared_up.env(), capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")


def test_nohup_is_obeyed(muster):
    process = subprocess.Popen(
        ["nohup", muster.command, "run", "--", "sh", "-c", "echo started; sleep 1; echo done"],
        env=muster.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=60)
    assert (out, process.returncode) == ("done\n", 0)


@pytest.mark.parametrize("module", ["click", "muster.cli.main", "muster.cli.commands.observation.ps"])
def test_ctrl_c_while_it_starts_is_no_traceback(muster, module):
    """From where our own code begins; before that it is Python that starts."""
    interrupted_import = f"""
import importlib.abc, os, signal, sys
class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from muster.cli.entry import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", interrupted_import, "ps"],
        env=muster.env(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (-signal.SIGINT, 130)
    assert done.stderr in ("", "\ninterrupted\n")


def test_what_is_imported_before_ctrl_c_is_silent():
    """Each module more would be milliseconds in which Ctrl-C prints a traceback."""
    imports = "import sys; before = {*sys.modules}; import muster.cli.entry; print(*sorted({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", imports], capture_output=True, text=True, timeout=60, check=True)
    assert {*done.stdout.split()} - {"gc", "atexit"} == {"muster", "muster.cli", "muster.cli.entry"}


def test_a_command_ends_without_the_interpreters_shutdown(muster):
    """To take apart the modules of a cluster takes 40 ms, while the user waits for the prompt."""
    program = """
import atexit, os, sys
from muster.cli.entry import main
class Kept:
    def __del__(self, write=os.write):  # sys.stdout is gone by then
        write(1, b"taken apart")
sys.kept = Kept()
atexit.register(print, "at exit")
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "--workers", "1", "--", "sh", "-c", "echo said; echo gone >&2; exit 3"],
        env=muster.env(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("said\nat exit\n", 3)
    assert "gone\n" in done.stderr
