"""What `#SBATCH` lines ask of `muster run`."""

import shlex

import pytest

from muster.slurm.batch import ScriptSettings
from muster.slurm.translation import LineError, translate


def translated(*lines):
    return translate(((number, shlex.split(line)) for number, line in enumerate(lines, 2)), {"B"})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "--cpus 1"),
        ("-N 2", "--workers 2 --cpus 1"),
        ("-N 2-4", "--workers 2 --cpus 1"),
        ("-n 4", "--cpus 4"),
        ("-n 4 -c 2", "--cpus 8"),
        ("-N 2 -n 5 -c 2", "--workers 2 --cpus 6"),
        ("-N 2 --ntasks-per-node=4 -c 8", "--workers 2 --cpus 32"),
        ("-n 8 --ntasks-per-node=4", "--workers 2 --cpus 4"),
        ("--mem=16G", "--cpus 1 --memory 16384Mi"),
        ("--mem=0", "--cpus 1"),
        ("--mem-per-cpu=2G -c 4", "--cpus 4 --memory 8192Mi"),
        ("--gres=gpu:2 --mem-per-gpu=8G", "--cpus 1 --memory 16384Mi --gpus 2"),
        ("--gres=gpu:4 --cpus-per-gpu=6", "--cpus 24 --gpus 4"),
        ("--gpus-per-node=4 -N 2", "--workers 2 --cpus 1 --gpus 4"),
        ("-G 8 -N 2", "--workers 2 --cpus 1 --gpus 4"),
        ("--gpus-per-task=1 -n 4", "--cpus 4 --gpus 4"),
        ("--gpus-per-task=1 -n 4 --gres=gpu:4", "--cpus 4 --gpus 4"),
        ("-t 90", "--cpus 1 --time 5400s"),
        ("-t 0", "--cpus 1"),
        (
            "-a 0-99%8 -p vision --qos=high -D data",
            "--cpus 1 --array 0-99%8 --workdir data --queue vision --priority high",
        ),
        ("-d afterok:a:b,afterany:c -b 16:00", "--cpus 1 --begin 16:00 --after a:ok,b:ok,c:any"),
        ("--begin=now", "--cpus 1"),
        ("--export=ALL,A=1,B,NOTSET", "--cpus 1 --env A=1 --env B"),
        ("--export=NONE", "--cpus 1"),
        ("--exclusive -c 2", "--cpus 2 --exclusive"),
        ("--signal=B:USR1@90 -t 10", "--cpus 1 --time 600s --signal USR1@90"),
        ("--signal=USR1@90 -t 10", "--cpus 1 --time 600s"),
        ("--requeue --parsable --wait", "--cpus 1"),
    ],
)
def test_lines_are_options_of_run(line, words):
    assert shlex.join(translated(line).words) == words


@pytest.mark.parametrize(
    ("line", "batch"),
    [
        ("", ScriptSettings()),
        ("-J 'My run'", ScriptSettings("My run")),
        ("-N 2 -n 5", ScriptSettings(nodes=2, tasks=5)),
        ("-N 2 --ntasks-per-node=4", ScriptSettings(nodes=2, tasks=8)),
        ("-n 2 --gpus-per-task=2", ScriptSettings(tasks=2, gpus_per_task=2)),
        ("-o %x-%j.out -e err -i in", ScriptSettings(output="%x-%j.out", error="err", input="in")),
        ("-o out --open-mode=append", ScriptSettings(output="out", append=True)),
        ("--signal=10@90 -t 10", ScriptSettings(notice="USR1@90")),
        ("--signal=B:USR1@90 -t 10", ScriptSettings()),
    ],
)
def test_the_rest_describes_the_batch(line, batch):
    assert translated(line).batch == batch


def test_of_an_option_that_is_written_twice_the_last_counts():
    assert translated("-c 2", "--cpus-per-task=4").words == ("--cpus", "4")


def test_what_changes_nothing_is_named_once_with_the_reason():
    found = translated("--comment=a", "--wckey=b -A lab", "--gres=gpu:a100:1 --export=ALL")
    assert found.ignored == (
        "--comment (Muster keeps no such note)",
        "--wckey (Muster keeps no such note)",
        "--account (quota belongs to queues)",
        "the type a100 of --gres (GPUs have no types here)",
        "--export=ALL (Muster passes on PATH and a few more; name others, as --export=A,B=1)",
    )


@pytest.mark.parametrize("line", ["--signal=USR1@60", "--signal=B:USR1@60 -t 0"])
def test_a_signal_without_a_time_limit_changes_nothing(line):
    found = translated(line)
    assert (found.words, found.batch.notice) == (("--cpus", "1"), "")
    assert found.ignored == ("--signal (without --time the job has no limit for a signal to come before)",)


@pytest.mark.parametrize("line", ["--signal=B:USR1@60", "--signal=B:USR1@60 -t 1"])
def test_a_signal_comes_before_the_time_limit_of_the_command_line(line):
    found = translate([(2, shlex.split(line))], (), has_limit=True)
    assert found.words[-2:] == ("--signal", "USR1@60")
    assert found.ignored == ()


@pytest.mark.parametrize(
    ("line", "words", "ignored"),
    [
        ("--mail-type=END,FAIL --mail-user=a@b.c", ("--notify", "mailto:a@b.c", "--notify-on", "end,fail"), ()),
        ("--mail-type=ALL --mail-user=ada", ("--notify", "mailto:ada", "--notify-on", "start,end,fail,requeue"), ()),
        ("--mail-type=NONE --mail-user=a@b.c", (), ()),
        ("--mail-user=a@b.c", (), ()),
        ("--mail-type=END", (), ("--mail-type (no --mail-user says where mail goes)",)),
        ("--mail-type=END --mail-user=<me@b.c>", (), ("--mail-user=<me@b.c> (it is no mail address)",)),
        (
            "--mail-type=TIME_LIMIT_80,end --mail-user=a@b.c",
            ("--notify", "mailto:a@b.c", "--notify-on", "end"),
            ("--mail-type=TIME_LIMIT_80 (Muster tells of the start, the end, a failure and the first interruption)",),
        ),
    ],
)
def test_mail_becomes_a_notice(line, words, ignored):
    found = translated(line)
    assert (found.words, found.ignored) == (("--cpus", "1", *words), ignored)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            "--mail-type=ENDE",
            "--mail-type: 'ENDE' is no type of mail: NONE, BEGIN, END, FAIL, REQUEUE, ALL, TIME_LIMIT, INVALID_DEPEND",
        ),
        ("-d afterok:12", "--dependency: 12 is a number, and jobs have names here: afterok:NAME"),
        ("-d singleton", "--dependency: 'singleton': a job waits for ends of others: afterok, afternotok, afterany"),
        ("--begin=soon", "--begin: 'soon' is no time: now+2hours, 16:00, noon, 2026-01-31 or 2026-01-31T16:00"),
        ("-C a100", "--constraint: name nodes of your own in the manifest of muster run --dry-run"),
        (
            "--no-requeue",
            "--no-requeue: an interrupted job starts again, with SLURM_RESTART_COUNT set; let the script look at that",
        ),
        ("--mem=lots", "--mem: 'lots' is no memory, as 4000 (MB), 512M or 16G"),
        ("-N 4 -n 2", "--ntasks: there are fewer tasks than nodes, which are 4"),
        ("-N 2 -n 9 --ntasks-per-node=4", "--ntasks: 2 nodes with 4 tasks each have no room for 9"),
        ("-N 2 -a 0-9", "--array: a trial of an array is a single worker; ask for one node"),
        ("-N 2 -G 3", "--gpus: 3 GPUs cannot be shared evenly by 2 nodes"),
        ("-n 4 --gpus-per-task=2 --gres=gpu:4", "--gpus-per-task: 4 tasks of a node need 8; it has 4"),
        ("-G 2 -n 3 --gpus-per-task=1", "--gpus: 3 tasks with 1 GPUs each need 3"),
        ("--cpus-per-gpu=4", "--cpus-per-gpu: the job has no GPUs"),
        ("--signal=USR1@60 -t 1", "--signal: the limit is 60 s, so a signal 60 s before it never comes"),
        ("--open-mode=w", "--open-mode: 'w' is neither append nor truncate"),
        ("--ntask 2", "Muster does not know --ntask of sbatch; did you mean --ntasks?"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_with_its_line(line, complaint):
    with pytest.raises(LineError) as refused:
        translated("--exclusive --cpus-per-task=1", line)
    assert (refused.value.number, str(refused.value)) == (3, complaint)


def test_a_node_of_its_own_has_a_number_of_cpus():
    with pytest.raises(LineError, match=r"^--exclusive: say how many CPUs: --cpus-per-task$"):
        translated("--exclusive")
