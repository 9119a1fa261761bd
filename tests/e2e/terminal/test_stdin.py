"""The standard input of `muster run` reaches rank 0, byte for byte, and nobody else."""

import subprocess

import pytest

pytestmark = pytest.mark.timeout(300)

SOME = bytes(range(256)) * (1 << 14)  # 4 MB, more than all that lies on the way


def run(muster, *arguments, **how):
    return subprocess.run(
        [muster.command, "run", *arguments], env=muster.env(), capture_output=True, check=False, timeout=120, **how
    )


@pytest.fixture(params=["a cluster of its own", "a cluster of all"])
def either(request):
    return request.getfixturevalue("shared_up" if request.param == "a cluster of all" else "muster")


def test_every_byte_and_the_end_arrive(either, tmp_path):
    done = run(either, "--", "cat", input=SOME)
    assert (done.returncode, done.stdout == SOME) == (0, True)
    (tmp_path / "file").write_bytes(SOME)
    with (tmp_path / "file").open("rb") as file:
        assert run(either, "--", "cat", stdin=file).stdout == SOME


def test_the_other_ranks_have_none(either):
    done = run(either, "--workers", "3", "--", "wc", "-c", input=b"hello")
    assert sorted(done.stdout.splitlines()) == [b"[0] 5", b"[1] 0", b"[2] 0"]


def test_a_program_need_not_read_it(muster):
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        assert run(muster, "--", "head", "-n", "1", stdin=endless.stdout).stdout == b"y\n"
        done = run(muster, "--", "true", stdin=endless.stdout)
        endless.kill()
    assert (done.returncode, b"input" in done.stderr) == (0, False)


@pytest.mark.parametrize("how", [{"input": b""}, {"stdin": subprocess.DEVNULL}])
def test_without_one_it_is_empty(shared_up, how):
    assert run(shared_up, "--", "wc", "-c", **how).stdout == b"0\n"


def test_a_loop_keeps_its_list_if_told_so(shared_up):
    script = f"while read name; do {shared_up.command} run --no-stdin -- echo $name; done"
    done = subprocess.run(["sh", "-c", script], input=b"a\nb\n", env=shared_up.env(), capture_output=True, check=True)
    assert done.stdout == b"a\nb\n"


@pytest.mark.parametrize(("options", "kind"), [(["--detach"], "detached"), (["--elastic", "1:2"], "elastic")])
def test_a_job_that_cannot_have_it_says_so(shared_up, options, kind):
    assert f"not passed on, as the job is {kind}" in run(shared_up, *options, "--", "true", input=b"x").stderr.decode()
    assert b"input" not in run(shared_up, *options, "--", "true", input=b"").stderr
    refused = run(shared_up, *options, "--stdin", "--", "true", input=b"x")
    assert (refused.returncode, f"of a job that is {kind}" in refused.stderr.decode()) == (2, True)
