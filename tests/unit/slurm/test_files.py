"""Files in the place of the standard streams."""

import subprocess
import sys

import pytest

PROGRAM = "import os, sys; from muster.slurm.files import redirect_streams; redirect_streams(**eval(sys.argv[1])); "
SHELL = "os.execvp('sh', ['sh', '-c', 'cat; echo out; echo err >&2'])"


@pytest.mark.parametrize(
    ("streams", "files", "printed"),
    [
        ({}, {}, ("given\nout\n", "err\n")),
        ({"output": "o"}, {"o": "given\nout\nerr\n"}, ("", "")),
        ({"output": "o", "error": "e"}, {"o": "given\nout\n", "e": "err\n"}, ("", "")),
        ({"output": "o", "error": "o"}, {"o": "given\nout\nerr\n"}, ("", "")),
        ({"error": "e"}, {"e": "err\n"}, ("given\nout\n", "")),
        ({"output": "old"}, {"old": "given\nout\nerr\n"}, ("", "")),
        ({"output": "old", "append": True}, {"old": "old\ngiven\nout\nerr\n"}, ("", "")),
        ({"source": "old"}, {}, ("old\nout\n", "err\n")),
    ],
)
def test_streams_are_files(tmp_path, streams, files, printed):
    (tmp_path / "old").write_text("old\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + SHELL, repr(streams)],
        cwd=tmp_path,
        input="given\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == printed
    assert {name: (tmp_path / name).read_text() for name in files} == files
