import os
import subprocess
import sys

from muster.runtime.process.endings import is_ending


def test_a_process_ends_from_when_it_is_killed() -> None:
    assert not is_ending(os.getpid())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert not is_ending(child.pid)
        child.kill()
        assert is_ending(child.pid), "at once"
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_ending(child.pid), "its parent has not waited for it yet"
        child.wait()
        assert is_ending(child.pid), "it has gone"
