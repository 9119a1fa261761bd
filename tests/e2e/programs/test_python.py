"""The Python interface, from programs as people write them."""

import json
import os
import subprocess
import sys
import textwrap
import time

import pytest
from tests.e2e.conftest import closing


@pytest.fixture
def program(tmp_path):
    """Runs a program, in a directory of its own, with the environment of a command; what it prints."""

    def run(muster, text, *, name="program.py", code=0):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        done = subprocess.run(
            [sys.executable, path.name],
            cwd=tmp_path,
            env=muster.env(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


def names(muster):
    """Return the names of all jobs."""
    return set(muster("ps", "-a", "-o", "name").stdout.split())


TRAIN = """
    import os
    import beside
    import muster

    def train(n, lost=None):
        rank = int(os.environ["RANK"])
        print("training", flush=True)
        if rank == lost:
            raise ValueError(f"no data for {n}")
        return beside.double(n) + rank
"""


@pytest.fixture
def beside(tmp_path):
    (tmp_path / "beside.py").write_text("def double(x): return 2 * x\n")


def test_without_a_cluster_one_is_started_in_the_program(muster, program, beside, tmp_path):
    muster.environment = {"TMPDIR": str(tmp_path)}
    said = program(
        muster,
        TRAIN
        + """
    job = muster.run(train, args=(5,), workers=2)
    print(job.result(), job.state, job.wait(), sorted(job.logs().split()), job.logs(rank=1).split())
    muster.run(["sleep", "1000"])  # it goes with the program
    try:
        muster.run(train, args=(5,), cpus=1000, name="wide")
    except muster.Error as error:
        print(str(error).partition(":")[0])
    """,
    )
    assert said.splitlines() == [
        "[10, 11] Completed 0 ['[0]', '[1]', 'training', 'training'] ['training']",
        "wide can never start",
    ]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("muster-")] == []
    assert not muster.home.exists()


def test_what_a_killed_program_has_left_is_removed_by_the_next_one(muster, program, tmp_path):
    muster.environment = {"TMPDIR": str(tmp_path / "files")}
    (tmp_path / "files").mkdir()
    run = "import os, muster\nprint(muster.run(abs, (-1,)).result())\n"
    program(muster, f"{run}os.kill(os.getpid(), 9)", code=-9)
    assert program(muster, run) == "1\n"
    assert list((tmp_path / "files").iterdir()) == []


def test_a_job_is_found_again_with_its_result(shared_up, program, beside):
    program(shared_up, TRAIN + "\n    muster.run(train, (5,), name='first', workers=2, env={'A': 'b'})")
    shared_up("wait", "first")
    assert program(shared_up, "import muster\nprint(muster.job('first').result())", name="later.py") == "[10, 11]\n"
    said = program(shared_up, TRAIN + "\n    muster.run(train, (5,), name='first')", code=1)
    assert said.splitlines()[-1].startswith(
        "muster.sdk.errors.Error: there is a job first already: give another name, or remove it"
    )


def test_what_ranks_raise_comes_back(shared_up, program, beside):
    said = program(shared_up, TRAIN + "\n    muster.run(train, (5,), {'lost': 1}, workers=2).result()", code=1)
    error, _, there = said.partition("\nIt was raised by rank 1 of job train-")
    assert said.count("Traceback") == 1
    assert error.splitlines()[-1] == "ValueError: no data for 5"
    assert "in train" in there


def test_a_rank_that_dies_without_a_word_is_said(shared_up, program):
    said = program(
        shared_up,
        """
        import os
        import muster

        for death in (lambda: os.kill(os.getpid(), 9), lambda: os._exit(3)):
            try:
                muster.run(death).result()
            except muster.JobFailedError as error:
                print(error.code, str(error).partition(": ")[2])
        """,
    )
    assert said == ("137 failed: ended by SIGKILL (exit code 137)\n3 failed: ended with exit code 3\n")


def test_jobs_are_followed_scaled_and_cancelled(shared_up, program):
    said = program(
        shared_up,
        """
        import muster

        job = muster.run("for word in a b; do echo $word; done; exec sleep 1000", elastic="1:3", workers=1)
        lines = job.follow()
        print(next(lines), next(lines))
        job.scale(2)
        try:
            job.wait(timeout=0.1)
        except TimeoutError as error:
            print(str(error).removeprefix(job.name))
        job.cancel()
        try:
            job.result()
        except muster.JobFailedError as error:
            print(str(error).partition(": ")[2])
        print(job.state, job.done())
        """,
    )
    assert said == "[0] a [0] b\n has not ended within 0.1 s; it continues\ncancelled\nCancelled True\n"


def test_what_is_no_job_is_said(shared_up, program):
    said = program(shared_up, "import muster\nmuster.job('nothing')", code=1)
    assert said.splitlines()[-1] == "muster.sdk.errors.Error: there is no job nothing in namespace default"


def test_a_job_that_can_never_start_is_said_at_once(shared_up, program):
    said = program(
        shared_up,
        """
    import logging, sys
    import muster
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    muster.run(["true"], name="wide", gpus=3).cancel()
    """,
    )
    assert said.startswith("wide can never start: no node ever has 3 nvidia.com/gpu")


def test_a_job_tells_of_its_end(shared_up, program, tmp_path):
    text = """
        import muster
        target = 'echo "$MUSTER_JOB $MUSTER_EVENT $MUSTER_JOB_STATE" > told.new; mv told.new told'
        print(muster.run("exit 3", name="telling", notify=target, notify_on=["end", "fail"]).wait())
    """
    assert program(shared_up, text) == "3\n"
    for _ in range(600):
        if (tmp_path / "told").exists():
            break
        time.sleep(0.1)
    assert (tmp_path / "told").read_text() == "telling fail Failed\n"


def test_a_notice_that_nothing_would_send_is_refused(muster, program):
    said = program(muster, "import muster\nmuster.run('true', notify='true')", code=1)
    assert "Error: notify=: only a server sends notices; start one with: muster up --detach" in said


def test_why_says_what_the_command_says(shared_up, program):
    said = program(
        shared_up,
        """
        import muster

        job = muster.run("true", name="big", cpus=1000000)
        print(job.why())
        print(job.why().facts["name"])
        """,
    )
    assert said.startswith("big: queued")
    assert "queue default" in said
    assert said.endswith("\nbig\n")


def test_what_is_submitted_in_a_job_goes_to_the_cluster_of_the_job(shared_up, program):
    before = names(shared_up)
    said = program(
        shared_up,
        """
        import muster

        def outer():
            with muster.Executor() as executor:
                return muster.run(abs, (-1,), name="inner").result(), executor.submit(abs, -2).result()

        print(muster.run(outer, name="outer", workdir="/").result())
        """,
    )
    assert said == "(1, 2)\n"
    executor, *others = sorted(names(shared_up) - before)
    assert (executor.startswith("executor-"), others) == (True, ["inner", "outer"])


def test_a_notebook_awaits_and_waits_in_one_cell(shared_up, program):
    said = program(
        shared_up,
        """
        import asyncio
        import muster

        async def cell():
            job = await muster.aio.run(["sh", "-c", "echo a; echo b"])
            states = [state.word async for state in muster.aio.watch(job)]
            lines = [line async for line in muster.aio.follow(job)]
            return states[-1], lines, await muster.aio.wait(job), muster.run(abs, (-2,)).result()

        print(asyncio.run(cell()))
        """,
    )
    assert said == "('Completed', ['a', 'b'], 0, 2)\n"


# Cancels a submission at a moment that the program chooses: `submitted` runs in Muster's thread once the server has the
# job.
CANCELLED = """
    import asyncio, logging, os, signal, sys, threading, time
    from pathlib import Path
    import muster
    from muster.runtime.transport import TransportError
    from muster.sdk import submission
    from muster.sdk.background import get_background

    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    submit, created, gone = submission.submit, threading.Event(), threading.Event()

    async def held(*args, **kwargs):
        job = await submit(*args, **kwargs)
        created.set()
        return await submitted(job)

    async def submitted(job):
        while not gone.is_set():
            await asyncio.sleep(0)
        return job

    async def cell(what, args=()):
        running = asyncio.create_task(muster.aio.run(what, args, name="lost"))
        await asyncio.to_thread(created.wait)
        running.cancel()
        try:
            await running
        except asyncio.CancelledError:
            print("cancelled")
        gone.set()

    submission.submit = held
"""


@pytest.fixture(scope="module")
def empty_up(tmp_path_factory):
    """A cluster for the tests that leave it without a job, as `require_gone` says at the end of each."""
    with closing(tmp_path_factory.mktemp("empty") / "home") as muster:
        muster("up", "--detach", "--port", "0")
        yield muster


def require_gone(up):
    """Require that no job is left, but for what the garbage collector still deletes."""
    while rows := json.loads(up("ps", "-o", "json").stdout):
        assert [(row["name"], row["state"]) for row in rows] == [("lost", "Deleting")]
    assert list((up.home / "calls").iterdir()) == []


def test_a_submission_that_is_cancelled_leaves_no_job(empty_up, program):
    assert program(empty_up, CANCELLED + "    asyncio.run(cell(abs, (-1,)))") == "cancelled\n"
    require_gone(empty_up)


def test_a_submission_that_is_cancelled_before_its_caller_knows_of_its_end_leaves_no_job(empty_up, program):
    said = program(
        empty_up,
        CANCELLED
        + """
    async def submitted(job):
        return job

    async def busy_cell():
        running = asyncio.create_task(muster.aio.run(abs, (-1,), name="lost"))
        await asyncio.sleep(0)
        created.wait()
        while get_background()._works:
            time.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
        print(running.cancelled())

    asyncio.run(busy_cell())
        """,
    )
    assert said == "True\n"
    require_gone(empty_up)


def test_a_submission_that_is_interrupted_leaves_no_job(empty_up, program):
    said = program(
        empty_up,
        CANCELLED
        + """
    async def submitted(job):
        os.kill(os.getpid(), signal.SIGINT)
        return job

    try:
        muster.run(abs, (-1,), name="lost")
    except KeyboardInterrupt:
        print("interrupted")
        """,
    )
    assert said == "interrupted\n"
    require_gone(empty_up)


def test_a_cancelled_job_may_write_while_its_directory_is_removed(empty_up, program):
    said = program(
        empty_up,
        CANCELLED
        + """
    def write_on():
        directory = Path(os.environ["MUSTER_CALL"])
        for number in range(1_000_000):
            (directory / f"{number}.part").touch()

    async def submitted(job):
        while not list(Path(os.environ["MUSTER_HOME"], "calls").glob("*/*.part")):
            await asyncio.sleep(0.01)
        return job

    asyncio.run(cell(write_on))
        """,
    )
    assert said == "cancelled\n"
    require_gone(empty_up)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ('TransportError("the connection broke")', "the connection broke"),
        ('ApiError(Status(code=500, message="it broke"))', "it broke"),
    ],
)
def test_a_cancelled_submission_whose_answer_is_lost_says_which_job_may_be_left(empty_up, program, error, text):
    said = program(
        empty_up,
        CANCELLED
        + f"""
    from muster.api.status import ApiError, Status
    from muster.runtime.client import Client

    create = Client.create

    async def created_without_answer(client, kind, *args, **kwargs):
        answer = await create(client, kind, *args, **kwargs)
        if kind.kind not in ("Job", "JobSet"):
            return answer
        created.set()
        await submitted(answer)
        raise {error}

    Client.create, submission.submit = created_without_answer, submit
    asyncio.run(cell(abs, (-1,)))
        """,
    )
    [cancelled, warning] = said.splitlines()
    advice = "inspect it: muster why lost -n default; end it: muster cancel lost -n default"
    assert cancelled == "cancelled"
    assert warning == f"the submission was cancelled: {text}; lost may have been submitted; {advice}"
    empty_up("cancel", "--delete", "lost", "-n", "default")
    require_gone(empty_up)


def test_an_executor_makes_many_calls_in_one_job(shared_up, program):
    before = names(shared_up)
    said = program(
        shared_up,
        """
        import os, tempfile, time
        import muster

        there = tempfile.mkdtemp()

        def meet(number):  # a worker that comes once all calls are made is not waited for
            open(f"{there}/{number}", "w").close()
            while len(os.listdir(there)) < 2:
                time.sleep(0.01)

        def trial(number):
            if number == 3:
                os.kill(os.getpid(), 9)
            if number == 4:
                raise ValueError(number)
            return number * number

        with muster.Executor(array=2) as executor:
            list(executor.map(meet, range(2)))
            print(sum(executor.map(trial, range(100, 200))))
            for number in (3, 4, 5):
                future = executor.submit(trial, number)
                print(future.exception() or future.result())
        print(executor.job.wait())
        """,
    )
    lines = said.splitlines()
    assert (lines[0], *lines[2:]) == (str(sum(n * n for n in range(100, 200))), "4", "25", "0")
    assert lines[1].endswith("has died: signal 9 (SIGKILL)")
    assert len(names(shared_up) - before) == 1


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("within", [True, False])
def test_ctrl_c_ends_all_calls(shared_up, program, workers, within):
    before = names(shared_up)
    said = program(
        shared_up,
        f"""
        import signal
        import threading
        import time
        from pathlib import Path
        import muster

        begun, here = Path("begun").absolute(), threading.main_thread().ident

        def long():
            begun.touch()
            time.sleep(1000)

        def interrupt():
            while not begun.exists():
                assert not calls[0].done()
            signal.pthread_kill(here, signal.SIGINT)

        try:
            with muster.Executor(workers={workers}) as executor:
                calls = [executor.submit(long), executor.submit(long)]
                if {within}:
                    interrupt()
                else:
                    threading.Thread(target=interrupt).start()
        except KeyboardInterrupt:
            print(calls[0].exception() is not None, calls[1].cancelled())
        """,
    )
    assert said == "True True\n"
    [job] = names(shared_up) - before
    assert shared_up("wait", job, check=False).stderr == f"{job}: cancelled\n"


def test_calls_of_several_workers_are_gangs(shared_up, program):
    said = program(
        shared_up,
        """
        import os
        import muster

        def trial(number):
            return f"{number} on {os.environ['RANK']} of {os.environ['WORLD_SIZE']}"

        with muster.Executor(workers=2, array=2) as executor:
            print(*executor.map(trial, range(2)))
        """,
    )
    assert said == "['0 on 0 of 2', '0 on 1 of 2'] ['1 on 0 of 2', '1 on 1 of 2']\n"


def test_an_executor_whose_job_ends_says_so(shared_up, program):
    said = program(
        shared_up,
        """
        import concurrent.futures
        import time
        import muster

        executor = muster.Executor(array=1)
        calls = [executor.submit(abs, -1), executor.submit(time.sleep, 1000), executor.submit(time.sleep, 1000)]
        print(calls[0].result())
        executor.job.cancel()
        print(type(calls[1].exception()).__name__, type(calls[2].exception()).__name__)
        executor.shutdown()
        """,
    )
    assert said == "1\nJobFailedError BrokenExecutor\n"


def test_scripts_for_submitit_run_with_one_import_changed(shared_up, program):
    said = program(
        shared_up,
        """
        import os
        from muster import submitit

        def trial(number, power):
            if number == 2:
                raise ValueError("two")
            if number == 3:
                os._exit(9)
            print("tried")
            return number ** power, submitit.JobEnvironment().num_tasks

        executor = submitit.AutoExecutor(folder="logs")
        executor.update_parameters(timeout_min=5, slurm_array_parallelism=2, name="sweep")
        jobs = executor.map_array(trial, [4, 2, 3], [2, 2, 2])
        print(jobs[0].result(), jobs[0].stdout().strip(), jobs[0].done())
        for job in jobs[1:]:
            print(str(job.exception()).splitlines()[-1].partition(": ")[2].replace(job.job_id[:-2], "JOB"))
        print(submitit.Job("logs", jobs[0].job_id).result())
        executor.update_parameters(nodes=2)
        print(executor.submit(trial, 5, 2).results())
        """,
    )
    assert said.splitlines() == [
        "(16, 1) tried True",
        "two",
        "JOB: trial 2 has failed without a word",
        "(16, 1)",
        "[(25, 2), (25, 2)]",
    ]


def test_a_job_of_submitit_continues_after_its_time_and_after_it_lost_its_place(shared_up, program):
    said = program(
        shared_up,
        """
        import os
        import subprocess
        import time
        from pathlib import Path
        from muster import submitit

        class Training(submitit.helpers.Checkpointable):
            attempts = 0

            def __call__(self, attempts):
                self.attempts += 1
                if submitit.JobEnvironment().global_rank == 0:
                    print("attempt", self.attempts, submitit.JobEnvironment().paths.folder.name, flush=True)
                while self.attempts < attempts:
                    time.sleep(0.1)
                return self.attempts

        executor = submitit.AutoExecutor(folder="logs/%j")
        executor.update_parameters(name="timed", nodes=2, slurm_time="40s", slurm_signal_delay_s=38)
        timed = executor.submit(Training(), 2)
        executor = submitit.AutoExecutor(folder="logs")
        executor.update_parameters(name="held")
        [held] = executor.map_array(Training(), [2])
        while "attempt" not in held.paths.stdout.read_text():
            time.sleep(0.1)
        for command in "hold", "release":
            subprocess.run(["muster", command, held.job_id.removesuffix("_0")], check=True, capture_output=True)
        print(held.result(), timed.results())
        print(held.paths.stdout == Path(f"logs/{held.job_id}_0_log.out").absolute())
        print(timed.paths.stdout.read_text().replace(timed.job_id, "timed"), end="")
        """,
    )
    assert said == "2 [2, 2]\nTrue\nattempt 2 timed\n"


def test_a_trial_of_submitit_that_is_retried_has_not_ended(shared_up, program):
    said = program(
        shared_up,
        """
        from pathlib import Path
        import time
        from muster import submitit

        tried = Path("tried").absolute()

        def trial(number):
            if not tried.exists():
                tried.touch()
                raise ValueError("the first attempt")
            return number

        executor = submitit.AutoExecutor(folder="logs")
        executor.update_parameters(name="again", muster_retries=1)
        [job] = executor.map_array(trial, [7])
        while "the first attempt" not in (job.stderr() or ""):
            time.sleep(0.1)
        print(job.done(), job.result())
        """,
    )
    assert said == "False 7\n"


@pytest.mark.parametrize("array", [True, False])
def test_jobs_of_submitit_are_told_in_the_order_of_their_ends(shared_up, program, array):
    said = program(
        shared_up,
        f"""
        from pathlib import Path
        import time
        from muster import submitit

        go = Path("go").absolute()

        def trial(number):
            while number == 0 and not go.exists():
                time.sleep(0.01)
            return number

        executor = submitit.AutoExecutor(folder="logs")
        jobs = executor.map_array(trial, range(2)) if {array} else [executor.submit(trial, one) for one in range(2)]
        for job in submitit.helpers.as_completed(jobs):
            print(job.result(), flush=True)
            go.touch()
        """,
    )
    assert said == "1\n0\n"


def test_of_an_array_the_cluster_is_asked_once_for_all_that_have_ended(shared_up, program):
    said = program(
        shared_up,
        """
        import os
        from muster import submitit
        from muster.sdk import core

        def trial(number):
            if number == 2:
                os._exit(9)
            return number

        jobs = submitit.AutoExecutor(folder="logs").map_array(trial, range(4))
        print([job.done() for job in submitit.helpers.as_completed(jobs)])
        asked, record = [], core.record

        def counted(reference):
            asked.append(reference.name)
            return record(reference)

        core.record = counted
        print([job.job_id.partition("_")[2] for job in submitit.helpers.as_completed(jobs)], len(asked))
        """,
    )
    assert said == "[True, True, True, True]\n['0', '1', '2', '3'] 1\n"


def test_results_are_not_read_from_where_others_could_put_them(shared_up, program):
    said = program(
        shared_up,
        """
        import os
        import muster

        def opened():
            os.chmod(os.environ["MUSTER_CALL"], 0o755)

        job = muster.run(opened)
        print(job.wait())
        try:
            job.result()
        except muster.Error as error:
            print(str(error).partition(":")[0], "is open to others (mode 0755)" in str(error))
        """,
    )
    assert said == "0\nresults are read only from where no other user can put any True\n"


def test_calls_that_wait_in_another_cluster_stay(up, program, tmp_path):
    old = tmp_path / "another" / "calls" / "old"
    old.mkdir(parents=True)
    for path in (old.parent.parent, old.parent, old):
        path.chmod(0o700)
    os.utime(old, (1, 1))
    up.environment = {**up.environment, "MUSTER_HOME": str(tmp_path / "another")}
    program(up, f"import muster\nprint(muster.run(abs, (-1,), kubeconfig={str(up.home / 'kubeconfig')!r}).result())")
    assert old.exists()


def test_old_calls_go_with_their_jobs(up, program):
    run = "import muster\nmuster.run(abs, (-1,), name='{}').wait()"
    program(up, run.format("kept"))
    program(up, run.format("gone"))
    up("cancel", "--delete", "gone")
    calls = [*(up.home / "calls").iterdir()]
    for path in calls:
        os.utime(path, (1, 1))
    program(up, run.format("new"))
    assert len([path for path in calls if path.exists()]) == 1
    assert program(up, "import muster\nprint(muster.job('kept').result())") == "1\n"
    assert {path.stat().st_mode & 0o777 for path in (up.home / "calls").iterdir()} == {0o700}


def test_a_fork_of_a_program_takes_nothing_of_it_along(shared_up, program):
    said = program(
        shared_up,
        """
        import os
        import muster

        print(muster.run(abs, (-1,)).result(), flush=True)
        if os.fork() == 0:
            print(muster.run(abs, (-2,)).result(), flush=True)
            raise SystemExit
        os.wait()
        print(muster.run(abs, (-3,)).result())
        """,
    )
    assert said == "1\n2\n3\n"


@pytest.mark.parametrize("own", [False, True])
def test_a_fork_leaves_the_jobs_and_the_workers_of_its_program_alone(own, shared_up, muster, program):
    """own: the cluster is inside the program."""
    said = program(
        muster if own else shared_up,
        """
        import os
        import sys
        import muster

        with muster.Executor() as executor:
            print(executor.submit(abs, -1).result(), flush=True)
            if os.fork() == 0:
                for use in (lambda: executor.submit(abs, -2), executor.job.wait, executor.job.cancel):
                    try:
                        use()
                    except muster.Error as refused:
                        print("refused", flush=True)
                sys.exit()  # leaves the block, too
            os.wait()
            print(executor.submit(abs, -3).result())
        """,
    )
    assert said == "1\nrefused\nrefused\nrefused\n3\n"


def test_what_is_submitted_once_python_has_ended_is_refused(muster, program):
    said = program(
        muster,
        """
        import atexit
        import muster

        def submit(when):
            try:
                print(when, muster.run(abs, (-2,)).result())
            except muster.Error as refused:
                print(when, refused)

        atexit.register(submit, "late")
        print(muster.run(abs, (-1,)).result(), flush=True)
        atexit.register(submit, "early")
        """,
    )
    first, early, late = said.splitlines()
    assert (first, early) == ("1", "early 2")
    assert late.startswith("late Python ends, and Muster has closed its connections")


def test_all_cpus_of_joblib_are_those_of_the_nodes(shared_up, program):
    said = program(
        shared_up,
        """
        import joblib
        import muster.joblib

        for n_jobs in (-1, -2, -1000):
            with joblib.parallel_config("muster", cpus="500m"):
                print(joblib.effective_n_jobs(n_jobs))
        with joblib.parallel_config("muster", n_jobs=-1):
            print(joblib.Parallel()(joblib.delayed(pow)(number, 2) for number in range(3)))
        """,
    )
    slots = 2 * len(os.sched_getaffinity(0))
    assert said == f"{slots}\n{slots - 1}\n1\n[0, 1, 4]\n"


def test_joblib_raises_what_a_call_raises(shared_up, program):
    said = program(
        shared_up,
        """
        import joblib
        import muster.joblib

        def trial(number):
            if number == 3:
                raise ValueError("three")
            return number

        with joblib.parallel_config("muster", n_jobs=2):
            print(sum(joblib.Parallel()(joblib.delayed(trial)(number) for number in range(100, 200))))
            try:
                joblib.Parallel()(joblib.delayed(trial)(number) for number in range(5))
            except ValueError as error:
                print(error)
        """,
    )
    assert said == "14950\nthree\n"


def test_a_thread_that_outlives_the_main_thread_starts_a_cluster(muster, program):
    """Python can import no thread pool any more, neither for the cluster nor for its client."""
    said = program(
        muster,
        """
        import threading
        import muster

        def work():
            threading.main_thread().join()
            large = "x" * 3_000_000  # a thread of the server validates it
            print(muster.run(len, args=(large,)).result())
            try:
                muster.Executor()
            except muster.Error as error:
                print(error)

        threading.Thread(target=work).start()
        """,
    )
    assert said == "3000000\nPython ends, as the main thread has ended: muster.run makes calls until the end\n"
