"""A job followed over a server in memory, in virtual time."""

import asyncio
import json
from contextlib import asynccontextmanager, nullcontext

import msgspec
import pytest
from tests.unit.runtime.conftest import MemoryServer, busy, down

from muster.actions.following.follow import Follower
from muster.actions.following.printout import Printout
from muster.actions.following.queuewatch import POSITION_SECONDS
from muster.actions.following.silence import GONE_SECONDS, SILENT_SECONDS
from muster.actions.jobs.lookup import get_job
from muster.api.batch import COMPLETION_INDEX, JOB
from muster.api.core import EVENT, POD
from muster.api.kueue import CLUSTER_QUEUE, WORKLOAD
from muster.api.status import ApiError, forbidden, not_found, unauthorized
from muster.cli.terminal.progress import Progress
from muster.insight.jobs.state import Ending, JobState
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.containerlogs import STDOUT
from muster.runtime.ids import Random
from muster.runtime.transport import Response, SilentError, TransportError


class Server(MemoryServer):
    """The server, with one log for all pods."""

    def __init__(self):
        super().__init__()
        self.position: int | None = None
        self.version = "v1.36.2"
        self.log: list[bytes | Exception] = [
            b"2026-01-01T00:00:00.000000001Z hello\n2026-01-01T00:00:00.000000002Z no end"
        ]

    def stream(self, request):
        return self.read_log() if request.path.endswith("/log") else super().stream(request)

    @asynccontextmanager
    async def read_log(self):
        async def chunks():
            for chunk in self.log:
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk

        if self.log and isinstance(self.log[0], ApiError):
            raise self.log[0]  # a server refuses before it begins
        yield chunks()

    def set(self, kind, name, **fields):
        """Store an object as it is given."""
        old = self._collection(kind).get(f"default/{name}")
        self.revision += 1
        metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(self.revision)}
        fields["metadata"] = metadata | fields.get("metadata", {})
        self._store(kind, f"default/{name}", fields, "MODIFIED" if old else "ADDED")

    def job(self, *conditions, **more):
        status = {"conditions": [{"type": condition, "status": "True"} | more for condition in conditions]}
        self.set(JOB, "j", spec={"completions": 1}, status=status)

    def pod(self, phase, code=0, name="j-0", stopped=False, **state):
        owner = {"uid": "j", "name": "j", "kind": "Job", "apiVersion": "batch/v1"}
        state = state or {"terminated": {"exitCode": code}}
        self.set(
            POD,
            name,
            metadata={"annotations": {COMPLETION_INDEX: "0"}, "ownerReferences": [owner]},
            spec={"nodeName": "n", "restartPolicy": "Never", "containers": [{"name": "c"}]},
            status={
                "phase": phase,
                "containerStatuses": [{"name": "c", "state": state}],
                "conditions": [{"type": "muster.dev/ClusterStopped", "status": "True"}] if stopped else [],
            },
        )

    def workload(self, *conditions):
        """That of the job, with the conditions that are given."""
        names = ("type", "status", "reason", "message")
        self.set(
            WORKLOAD,
            "w",
            metadata={"labels": {"kueue.x-k8s.io/job-uid": "j"}},
            spec={"queueName": "q"},
            status={"conditions": [dict(zip(names, condition, strict=True)) for condition in conditions]},
        )

    async def request(self, request):
        if request.path.endswith("/localqueues/q/pendingworkloads"):
            return self.pending()
        if request.path == "/version" and self.fault(request) is None:
            return Response(200, json.dumps({"gitVersion": self.version}).encode())
        return await super().request(request)

    def pending(self):
        """So many are before the job, which is only there if this is known."""
        if self.position is None:
            return Response(404, b"")
        item = {"metadata": {"name": "w"}, "positionInClusterQueue": self.position, "positionInLocalQueue": 0}
        return Response(200, json.dumps({"items": [item | {"priority": 0, "localQueueName": "q"}]}).encode())


def follow(server, script, warn=lambda _: None, report=lambda _: None, inside=""):
    """Follow job j while the script runs: how it ended and the output, or the error and when it was raised."""
    shown = []

    async def show(rank, stream, text):
        assert stream == STDOUT
        shown.append((rank, text))

    async def main():
        clock = VirtualClock()
        follower = Follower(
            Client(server),
            clock,
            Random(1),
            "default",
            "j",
            show=show,
            warn=warn,
            report=report,
            inside=inside,
        )
        playing = asyncio.create_task(script())
        try:
            async with asyncio.timeout(3600):
                return await follower.run(), shown
        except (ApiError, TransportError) as error:
            return error, clock.monotonic()
        finally:
            playing.cancel()

    return run_virtual(main())


def test_the_output_is_shown_to_its_last_line_which_needs_no_end():
    server = Server()
    server.job()

    async def script():
        await asyncio.sleep(1)
        server.pod("Running", running={})
        await asyncio.sleep(1)
        server.pod("Failed", code=3)
        await asyncio.sleep(1)
        server.job("Failed")

    ending, shown = follow(server, script)
    assert ending.code == 3
    assert shown == [("0", b"hello\n"), ("0", b"no end\n")]


class Ours(Server):
    """A server of ours, which keeps what a pod has printed that is gone."""

    kept_runs: tuple[int, ...] = (0,)
    kept = "- attempt F 0\n2026-01-01T00:00:00.000000001Z stdout F hello\n2026-01-01T00:00:00.000000002Z stdout F bye\n"

    async def request(self, request):
        if request.path == "/version":
            return Response(200, b'{"gitVersion": "v1.34.0+muster"}')
        if request.path.endswith("/jobs/j/log"):
            pod = {"name": "j-0", "uid": "j-0", "rank": "0", "created": "", "containers": {"c": self.kept_runs}}
            return Response(
                200, json.dumps({"items": [] if "default/j-0" in self._collection(POD) else [pod]}).encode()
            )
        return await super().request(request)

    @asynccontextmanager
    async def of_gone(self, request):
        assert (request.query["uid"], request.query["raw"]) == ("j-0", "true")

        async def chunks():
            yield self.kept.encode()

        yield chunks()

    def stream(self, request):
        return self.of_gone(request) if request.path.endswith("/jobs/j/log") else super().stream(request)


@pytest.mark.parametrize(
    "printed",
    [
        pytest.param(None, id="gone before it was seen to run"),
        pytest.param(not_found("pods", "j-0"), id="gone before its log was asked for"),
        pytest.param(
            b"- attempt F 0\n2026-01-01T00:00:00.000000001Z stdout F hello\n", id="gone in the midst of its log"
        ),
    ],
)
def test_what_a_pod_has_printed_that_is_gone_is_shown_in_the_end_and_once(printed):
    server = Ours()
    server.job()
    server.log = [printed, not_found("pods", "j-0")] if isinstance(printed, bytes) else [printed]

    async def script():
        await asyncio.sleep(1)
        if printed is not None:
            server.pod("Running", running={})
        await asyncio.sleep(1)
        server.remove("j-0", kind=POD)
        server.job("Failed")

    ending, shown = follow(server, script)
    assert ending.code == 1
    assert b"".join(text for _, text in shown) == b"hello\nbye\n"


@pytest.mark.parametrize(("failed", "expected"), [(0, b"again\nhello\nbye\n"), (1, b"again\n")])
def test_what_an_earlier_pod_printed_before_it_was_seen_is_shown_to_who_followed_from_the_start(failed, expected):
    server = Ours()
    server.set(JOB, "j", spec={"completions": 1}, status={"failed": failed})
    server.log = [b"- attempt F 0\n2026-01-01T00:00:01.000000000Z stdout F again\n"]

    async def script():
        await asyncio.sleep(1)
        server.pod("Running", name="j-1", running={})
        await asyncio.sleep(1)
        server.pod("Failed", name="j-1", code=1)
        server.job("Failed")

    _, shown = follow(server, script)
    assert b"".join(text for _, text in shown) == expected


def test_an_earlier_run_whose_log_is_gone_does_not_hide_the_later_ones():
    class Pruned(Ours):
        """The node has deleted the first of two logs since the list of them was made."""

        kept_runs = (0, 1)

        def stream(self, request):
            if request.query.get("attempt") == "0":
                raise not_found("pods", "j-0")
            return super().stream(request)

    server = Pruned()
    server.job()

    async def script():
        await asyncio.sleep(1)
        server.job("Failed")

    _, shown = follow(server, script)
    assert b"".join(text for _, text in shown) == b"hello\nbye\n"


def test_the_pods_are_looked_at_again_when_the_job_is_over():
    """The watch of the pods may be behind that of the job."""
    server = Server()
    server.job()
    server.pod("Running", running={})

    async def script():
        await asyncio.sleep(1)
        server.break_streams()
        server.fault = lambda request: busy(request) if "watch" in request.query and "/pods" in request.path else None
        server.pod("Failed", code=4)
        server.job("Failed")

    assert follow(server, script)[0].code == 4


def test_a_cancelled_job_has_not_ended_while_a_pod_runs_that_the_watch_has_not_shown():
    server = Server()
    server.job()

    async def script():
        await asyncio.sleep(1)
        server.break_streams()
        server.fault = lambda request: busy(request) if "watch" in request.query and "/pods" in request.path else None
        server.pod("Running", running={})
        server.job("Failed", reason="Cancelled")
        await asyncio.sleep(60)
        server.fault = lambda _: None
        server.pod("Failed", code=143)

    reported: list[JobState] = []
    assert follow(server, script, report=reported.append)[0] == Ending(1, "cancelled")
    assert [state.word for state in reported] == ["Pending", "Cancelling", "Cancelled"]


def test_a_job_that_is_deleted_has_ended():
    server = Server()
    server.job()

    async def script():
        await asyncio.sleep(1)
        server.remove("j", kind=JOB)

    assert follow(server, script)[0] == Ending(1, "it was deleted")


def test_output_that_may_not_be_read_is_an_error():
    server = Server()
    server.job()
    server.pod("Running", running={})
    server.log = [forbidden("you may not")]
    error, _ = follow(server, lambda: asyncio.sleep(0))
    assert isinstance(error, ApiError)
    assert "you may not" in str(error)


@pytest.mark.parametrize(("refusal", "is_shown"), [(not_found("pods", "j-0"), True), (forbidden("you may not"), False)])
def test_the_output_of_a_pod_that_was_just_deleted_is_passed_over(refusal, is_shown):
    server = Server()
    server.job()
    server.pod("Running", running={})
    server.log = [refusal]

    async def print_once():
        client = Client(server)
        printout = Printout(client, VirtualClock(), "default", "j", show=show_nothing, warn=print)
        await printout.print_once(await get_job(client, "j", "default"))

    async def show_nothing(rank, stream, text):
        raise AssertionError(text)

    with nullcontext() if is_shown else pytest.raises(ApiError, match="you may not"):
        run_virtual(print_once())


@pytest.mark.parametrize("log", [[], [TransportError("reset")]])
@pytest.mark.parametrize(
    ("version", "advice"),
    [
        ("v1.36.2+muster-0.1.0", "start the cluster again with muster up --detach, then: muster logs -f j"),
        ("v1.36.2", "once the server answers: muster logs -f j"),
    ],
)
def test_a_server_that_is_gone_for_good_is_given_up_in_two_lines(version, advice, log, caplog):
    server = Server()
    server.version = version
    server.job()
    server.pod("Running", running={})
    server.log = log

    async def script():
        await asyncio.sleep(100)
        server.fault = down
        server.break_streams(TransportError("reset"))

    warnings: list[str] = []
    error, when = follow(server, script, warnings.append)
    [warning] = warnings
    assert warning.startswith("j: the server does not answer; trying for 30 s: cannot reach the server")
    assert not caplog.records
    assert isinstance(error, TransportError)
    gone = f"gave up on j: the server has been gone for 30 s; the job continues; {advice} (cannot reach the server"
    assert str(error).startswith(gone)
    assert when == pytest.approx(100 + GONE_SECONDS, abs=3)


@pytest.mark.parametrize("before", [False, True])
def test_a_job_whose_cluster_is_stopped_is_left_at_once_and_it_is_said_how_it_goes_on(before):
    """before: it was stopped before, too."""
    server = Server()
    server.job()
    if before:
        server.pod("Failed", code=143, name="j-a", stopped=True)
    server.pod("Running", running={})

    async def script():
        await asyncio.sleep(100)
        server.pod("Failed", code=143, stopped=True)
        await asyncio.sleep(1)
        server.fault = down
        server.break_streams(TransportError("reset"))

    warnings: list[str] = []
    lines: list[str] = []
    error, when = follow(server, script, warnings.append, Progress("j", 1, lines.append).report)
    assert str(error) == "the cluster was stopped; the job continues at the next muster up: muster logs -f j"
    assert (lines, warnings) == (["j: running"], [])
    assert when == pytest.approx(101, abs=3)


def test_interruptions_are_told_as_they_come():
    server = Server()

    def interrupted(*counts):
        told = [{"type": "muster.dev/Interrupted", "status": "True", "message": message} for message in counts]
        server.set(JOB, "j", spec={"completions": 1}, status={"conditions": told})

    interrupted("1 interruption, the last: Pod a was evicted from node n")
    server.pod("Running", running={})

    async def script():
        await asyncio.sleep(1)
        interrupted("2 interruptions, the last: Pod b was preempted by big on node n")
        await asyncio.sleep(1)
        server.job("Complete")

    warnings: list[str] = []
    follow(server, script, warnings.append)
    assert warnings[:1] == ["j was interrupted: Pod b was preempted by big on node n"]


def test_what_ended_with_a_cluster_earlier_is_no_stop_of_it_now():
    server = Server()
    server.job()
    server.pod("Failed", code=143, stopped=True)

    async def script():
        await asyncio.sleep(1)
        server.fault = down
        server.break_streams(TransportError("reset"))
        await asyncio.sleep(GONE_SECONDS - 5)
        server.fault = lambda request: None
        server.job("Complete")

    assert follow(server, script)[0] == Ending(0)


def test_a_user_whose_credentials_are_void_stops_following_at_once(caplog):
    server = Server()
    server.job()

    async def script():
        await asyncio.sleep(100)
        server.fault = lambda request: Response(401, msgspec.json.encode(unauthorized().status))
        server.break_streams(TransportError("reset"))

    error, when = follow(server, script)
    assert isinstance(error, ApiError)
    assert (error.code, not caplog.records) == (401, True)
    assert when == pytest.approx(100, abs=3)


def silent(request):
    """A fault: the server, which may be stopped, does not answer in time."""
    return SilentError(f"{request.path}: no answer in time")


def test_a_server_that_comes_back_or_is_only_busy_or_silent_is_waited_for():
    server = Server()
    server.job()

    async def script():
        await asyncio.sleep(1)
        pauses = (
            (down, GONE_SECONDS - 5),
            (busy, 300),
            (silent, SILENT_SECONDS - GONE_SECONDS),
            (down, GONE_SECONDS - 5),
        )
        for fault, seconds in pauses:
            server.fault = fault
            server.break_streams(TransportError("reset"))
            await asyncio.sleep(seconds)
        server.fault = lambda request: None
        server.job("Complete")

    assert follow(server, script)[0] == Ending(0)


WAITS = ("QuotaReserved", "False", "WaitingForQuota", "no room")


def queued(server, script):
    """What is said of a job that waits in its queue."""
    lines: list[str] = []
    ending, _ = follow(server, script, report=Progress("j", 1, lines.append).report)
    assert ending == Ending(0)
    return lines


def test_where_a_job_stands_is_said_until_it_runs():
    server = Server()
    server.set(
        JOB, "j", metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}, spec={"completions": 1, "suspend": True}
    )
    server.position = 2

    async def script():
        await asyncio.sleep(1)
        server.workload(WAITS)
        await asyncio.sleep(POSITION_SECONDS / 2)
        server.position = 1
        await asyncio.sleep(POSITION_SECONDS)
        server.workload(("QuotaReserved", "True", "R", ""), ("Admitted", "True", "R", ""))
        server.set(JOB, "j", spec={"completions": 1})
        await asyncio.sleep(1)
        server.pod("Running", running={})
        await asyncio.sleep(1)
        server.job("Complete")

    assert queued(server, script) == [
        "j: waiting in queue q, position 3: no room",
        "j: waiting in queue q, position 2: no room",
        "j: running",
    ]


@pytest.mark.parametrize("seen", [True, False])
def test_what_keeps_a_job_out_of_its_queue_is_said_once(seen):
    server = Server()
    server.set(
        JOB, "j", metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}, spec={"completions": 1, "suspend": True}
    )
    server.fault = lambda request: forbidden("no events") if "/events" in request.path and not seen else None

    async def script():
        await asyncio.sleep(1)
        server.set(
            EVENT, "e", involvedObject={"uid": "j"}, reason="ErrWorkloadCompose", message="too many podsets", count=1
        )
        await asyncio.sleep(5 * POSITION_SECONDS)
        server.job("Complete")

    assert queued(server, script) == ["j: queued: its queue cannot take it in: too many podsets"] * seen
    asked = [request for request in server.requests if request.path.endswith("/events")]
    reasons = {"reason=ErrWorkloadCompose", "reason=WorkloadPriorityClassNotFound"}
    assert {request.query["fieldSelector"] for request in asked} == reasons


def test_without_the_visibility_api_no_position_is_said():
    server = Server()
    server.set(
        JOB, "j", metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}, spec={"completions": 1, "suspend": True}
    )

    async def script():
        await asyncio.sleep(1)
        server.workload(WAITS)
        await asyncio.sleep(1)
        server.job("Complete")

    assert queued(server, script) == ["j: waiting in queue q: no room"]


CLOSED = (*WAITS[:3], "ClusterQueue main is inactive")


@pytest.mark.parametrize(
    ("condition", "holders", "inside", "warnings"),
    [(WAITS, 1, "outer", 1), (WAITS, 2, "outer", 0), (CLOSED, 1, "outer", 0), (WAITS, 1, "elsewhere", 0)],
)
def test_a_program_that_waits_for_quota_of_its_own_job_is_told_once(condition, holders, inside, warnings):
    server = Server()
    warned: list[str] = []
    server.set(
        JOB, "j", metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}, spec={"completions": 1, "suspend": True}
    )
    server.set(JOB, "outer", spec={"completions": 1})
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "R", "message": ""}
    server.set(
        WORKLOAD,
        "o",
        metadata={"labels": {"kueue.x-k8s.io/job-uid": "outer"}},
        spec={"queueName": "q"},
        status={"admission": {"clusterQueue": "main"}, "conditions": [reserved]},
    )
    queue = {"metadata": {"name": "main"}, "status": {"reservingWorkloads": holders}}
    found = Response(200, json.dumps(queue).encode())
    server.fault = lambda request: found if request.path == CLUSTER_QUEUE.path(name="main") else None

    async def script():
        await asyncio.sleep(1)
        server.workload(condition)
        await asyncio.sleep(5 * POSITION_SECONDS)
        server.job("Complete")

    follow(server, script, warn=warned.append, inside=inside)
    assert sum(request.path == JOB.path("default", "elsewhere") for request in server.requests) <= 1
    advice = "if outer waits for j, neither ends; let outer request less, or submit j from outside"
    asked = "j waits for quota of ClusterQueue main, which only outer uses, the job in which this program runs"
    assert warned == warnings * [f"{asked}: {advice}"]


def test_a_cluster_without_queues_is_followed_all_the_same():
    server = Server()
    server.job()
    server.fault = lambda request: not_found("workloads", "") if "workloads" in request.path else None

    async def script():
        await asyncio.sleep(1)
        server.job("Complete")

    assert queued(server, script) == []
