"""`muster run`: what the shell gave is what runs."""

import json
import shutil
import subprocess

import pytest
import yaml

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ.get('A'), os.getcwd()]))"
WORDS = [
    "a$$b $(RANK)",
    "$(A)",
    "$",
    "${A} $A",
    "",
    "-n",
    "--",
    "two\nlines\n",
    "\t'\"\\ é😀",
    "y",
    "1e3",
    "# no",
    "$é",
]


def run(muster, *arguments, cwd, check=False):
    return subprocess.run(
        [muster.command, "run", *arguments],
        env=muster.env(),
        cwd=cwd,
        capture_output=True,
        timeout=60,
        check=check,
    )


@pytest.fixture
def directory(tmp_path):
    found = tmp_path / "$(RANK) $$x"
    found.mkdir()
    return found


def test_words_environment_and_directory_are_the_callers(muster, directory):
    muster.environment = {"LANG": "$(RANK)$$"}
    show = SHOW.replace("'A')", "'A'), os.environ['LANG']")
    done = run(muster, "--env", "A=$(RANK) $$", "--", "python", "-c", show, *WORDS, cwd=directory, check=True)
    assert json.loads(done.stdout) == [WORDS, "$(RANK) $$", "$(RANK)$$", str(directory)]


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_manifest_that_is_applied_runs_the_same(up, directory, form):
    arguments = ["--name", "words", "--env", "A=$(RANK) $$", "--dry-run", "-o", form, "--", "python", "-c", SHOW]
    manifest = run(up, *arguments, *WORDS, cwd=directory, check=True).stdout.decode()
    up("apply", "-f", "-", "--wait", input=manifest)
    assert json.loads(up("logs", "words").stdout) == [WORDS, "$(RANK) $$", str(directory)]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([b"--", b"echo", b"\xff"], "argument 1 of the command is not UTF-8"),
        ([b"--env", b"A=\xff", b"--", b"true"], "the variable A is not UTF-8"),
        ([b"--", b""], "the command is empty"),
    ],
)
def test_what_cannot_be_carried_is_refused_in_words(muster, tmp_path, arguments, complaint):
    done = run(muster, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert complaint in done.stderr.decode()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine")
def test_kubectl_reads_the_same_words(muster, directory):
    manifest = run(muster, "--name", "words", "--dry-run", "--", "echo", *WORDS, cwd=directory, check=True).stdout
    done = subprocess.run(
        ["kubectl", "label", "--local", "-o", "json", "-f", "-", "a=b"], input=manifest, capture_output=True, check=True
    )
    read, written = json.loads(done.stdout), yaml.safe_load(manifest)
    assert containers(read) == containers(written)


def containers(jobset):
    return jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
