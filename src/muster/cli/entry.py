"""The start of the process. Until a command runs, Ctrl-C ends the process silently, as it does any other program."""

# The core of `signal`, which itself imports other modules first: a Ctrl-C meanwhile would print a traceback.
import _signal  # type: ignore[import-not-found]
import atexit
import gc
import os
import sys

# The allocations before a garbage collection. The modules of a command stay in memory, and collecting among them takes
# a tenth of the start. A cluster sets its own thresholds once it has started.
_COLLECTION_THRESHOLD = 300_000


def main() -> None:
    """Import the command line and run it, and end the process with its exit code.

    An interrupt before the import ends, or after the command, ends the process at once, without a traceback. No thread
    or unclosed file of a command may outlive the command, because nothing waits for them.
    """
    if sys.getfilesystemencoding() == "ascii":
        _start_again_with_utf8()
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
        if interruptible:  # an interrupt from here on needs no report
            _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        if not isinstance(code, int):
            raise
        atexit._run_exitfuncs()  # noqa: SLF001 - as the shutdown begins, too
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the interpreter's shutdown would take apart the modules one by one, a cluster's in 40 ms


def _start_again_with_utf8() -> None:
    """Replace this process by one that reads arguments, paths and variables as UTF-8, if its Python reads only ASCII.

    Python does so in the locale C with `PYTHONUTF8=0`. The option, unlike that variable, is not inherited by jobs.
    """
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - the same program
