"""TAB in real shells, and through kubectl."""

import os
import shutil
import signal
import subprocess

import pytest

# What bash does at TAB: it fills COMP_WORDS, calls the function, and reads COMPREPLY.
TAB = """
compopt() { echo "compopt $1 $2"; }
source <(muster completion bash)
complete -p muster > /dev/null || exit 3
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_muster_completion muster
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(muster, *words):
    command = ["bash", "--norc", "-c", TAB, "bash", "muster", *words]
    done = subprocess.run(command, env=muster.env(), capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.fixture(scope="module")
def at_work(shared_muster):
    """A cluster with jobs and queues to be named."""
    shared_muster("up", "--detach", "--port", "0", "--nodes", "simulated")
    for name in ("train", "tune"):
        shared_muster("run", "--detach", "--name", name, "--", "true")
    shared_muster("queue", "create", "vision", "--cpu", "1")
    return shared_muster


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ca"], ["cancel"]),
        (["queue", "st"], ["stop"]),
        (["run", "--qu"], ["--queue"]),
        (["ps", "-o", ""], ["wide", "json", "yaml", "name"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["apply", "-f", "ex"], ["compopt -o default", ""]),
        (["up", "--data", ""], ["compopt -o dirnames", ""]),
        (["run", "--", "tr"], ["compopt -o default", ""]),
        (["cancel", "t"], ["train", "tune"]),
        (["cancel", "train", "tu"], ["tune"]),
        (["logs", "-n", "kube-system", ""], [""]),
        (["why", "--kubeconfig", "/no/such/file", ""], [""]),
        (["run", "--queue", "v"], ["vision"]),
        (["hold", "q"], ["queue/"]),
        (["hold", "queue/v"], ["queue/vision"]),
        (["queue", "stop", "--cluster", ""], ["muster-default", "vision"]),
        (["ps", "-n", "kube-s"], ["kube-system"]),
        (["ps", "--state", "s"], ["suspended", "starting"]),
        (["ps", "tr"], ["train"]),
    ],
)
def test_bash_completes(at_work, words, expected):
    assert offered(at_work, *words) == expected


def test_without_a_cluster_or_with_one_that_does_not_answer_nothing_is_offered_and_nothing_said(up):
    pid = int((up.home / "lock").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        assert offered(up, "cancel", "") == [""]
    finally:
        os.kill(pid, signal.SIGCONT)
    up("down")
    assert offered(up, "cancel", "") == [""]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(at_work):
    script = "muster completion fish | source; complete -C 'muster cancel t'; complete -C 'muster appl'"
    done = subprocess.run(["fish", "-c", script], env=at_work.env(), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "train",
        "tune",
        "apply\tCreate or change the objects in manifests.",
    ]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_takes_the_script(at_work):
    # Its widgets complete only at a terminal; what they would show goes through these two.
    script = """
        autoload -Uz compinit && compinit -u -D
        source <(muster completion zsh) || exit 3
        [[ $_comps[muster] == _muster_completion ]] || exit 4
        compadd() { shift $(($# - 1)); echo ${(P)1} }
        words=(muster cancel t); CURRENT=3; _muster_completion
    """
    done = subprocess.run(["zsh", "-f", "-c", script], env=at_work.env(), capture_output=True, text=True, check=True)
    assert done.stdout == "train tune\n"


@pytest.mark.kubectl
def test_kubectl_completes_its_plugin(at_work):
    def completed(*words):
        command = ["kubectl", "__complete", "muster", *words]
        done = subprocess.run(command, env=at_work.env(), capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.splitlines()

    assert completed("cancel", "t") == ["train", "tune", ":4"]
    assert completed("canc") == ["cancel\tCancel jobs.", ":4"]
    assert completed("apply", "-f", "") == [":0"]
    assert completed("up", "--data", "") == [":16"]
