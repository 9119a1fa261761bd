"""The start of the process. Until a command runs, Ctrl-C terminates the process silently, as with other programs."""

# The core of `signal`, which itself first imports other modules. A Ctrl-C during that import would print a traceback.
import _signal  # type: ignore[import-not-found]
import atexit
import gc
import os
import sys
import time

# The number of allocations before a garbage collection. The modules of a command stay in memory, and collecting among
# them takes a tenth of the start. A cluster sets its own thresholds when it has started.
_COLLECTION_THRESHOLD = 300_000
_DAY = 24 * 60 * 60


def main() -> None:
    """Import the command line and run it, and exit with its exit code.

    An interrupt before the import ends, or after the command, terminates the process at once, without a traceback. No
    thread or unclosed file of a command may outlive the command, because nothing waits for them.
    """
    if sys.getfilesystemencoding() == "ascii":
        _start_again_with_utf8()
    if max(abs(time.timezone), abs(time.altzone)) >= _DAY:
        _use_utc()
    gc.set_threshold(_COLLECTION_THRESHOLD)
    # A signal that the shell ignores for background jobs stays ignored.
    interruptible = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if interruptible:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from muster.cli.main import main as run

    if interruptible:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    try:
        run()
    except SystemExit as ending:
        code = ending.code
        if interruptible:  # later interrupts need no report
            _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        if not isinstance(code, int):
            raise
        atexit._run_exitfuncs()  # noqa: SLF001 - as the shutdown begins, too
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the interpreter's shutdown would free the modules one by one, which takes 40 ms for a cluster


def _start_again_with_utf8() -> None:
    """Replace this process by one that reads arguments, paths and variables as UTF-8, if its Python reads only ASCII.

    Python does so in the locale C with `PYTHONUTF8=0`. Jobs inherit that variable, but not the option that is set here.
    """
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - the same program


def _use_utc() -> None:
    """Replace the time zone of this process, and say so: the times of Python can only be less than a day from UTC."""
    print(f"TZ={os.environ.get('TZ', '')} is a day or more from UTC: times are in UTC", file=sys.stderr)
    os.environ["TZ"] = "UTC"
    time.tzset()
