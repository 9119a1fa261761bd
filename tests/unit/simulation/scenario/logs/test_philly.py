"""The log of Microsoft's Philly clusters."""

import io
import json
from typing import Any

import pytest

from muster.simulation.scenario.logs import philly
from muster.simulation.scenario.logs.jobs import LeftOut, LogError, Role, TracedJob
from muster.simulation.scenario.logs.philly import read_philly

GPUS = [f"gpu{number}" for number in range(8)]
# The example of the README of the data set.
JOB: dict[str, Any] = {
    "status": "Pass",
    "vc": "ee9e8c",
    "jobid": "application_1506638472019_14199",
    "attempts": [
        {
            "start_time": "2017-10-07 01:12:09",
            "end_time": "2017-10-07 01:13:23",
            "detail": [{"ip": "m47", "gpus": GPUS}],
        },
        {
            "start_time": "2017-10-07 01:13:30",
            "end_time": "2017-10-09 06:53:12",
            "detail": [{"ip": "m412", "gpus": GPUS}, {"ip": "m413", "gpus": GPUS[:4]}],
        },
    ],
    "submitted_time": "2017-10-07 01:11:39",
    "user": "ce2f4c",
}


def read(text, left_out=None):
    return list(read_philly(io.StringIO(text), left_out or LeftOut()))


def test_a_job_has_the_servers_of_its_last_attempt_and_runs_as_long_as_all():
    assert read(json.dumps([JOB], indent=4)) == [
        TracedJob(
            1507338699.0,
            74.0 + 193182.0,
            "application_1506638472019_14199",
            (Role(1, (("nvidia.com/gpu", 8),)), Role(1, (("nvidia.com/gpu", 4),))),
            queue="ee9e8c",
            user="ce2f4c",
        )
    ]


@pytest.mark.parametrize("chunk", [1, 7, 100, 10**6])
def test_the_log_is_read_in_pieces(monkeypatch, chunk):
    monkeypatch.setattr(philly, "_CHUNK", chunk)
    assert len(read(json.dumps([JOB] * 3))) == 3


@pytest.mark.parametrize(
    "attempts", [[], [JOB["attempts"][0] | {"end_time": None}], [JOB["attempts"][0] | {"detail": []}]]
)
def test_jobs_that_never_ran_to_an_end_are_counted(attempts):
    left_out = LeftOut()
    assert read(json.dumps([JOB | {"attempts": attempts}]), left_out) == []
    assert left_out.jobs == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "line 1: is no JSON array of jobs"),
        ("", "line 1: Expecting value"),
        ("[\n" + json.dumps(JOB) + ",\n{]", "line 3: Expecting property name"),
        ("[\n" + json.dumps(JOB) + ",\n", "line 3: Expecting value"),
        ("[\n\n{}]", "line 3: is no job: Object missing required field `jobid`"),
        (json.dumps([JOB | {"submitted_time": "once"}]), "line 1: is no job: Invalid isoformat string: 'once'"),
    ],
)
def test_a_log_that_is_broken_is_named(text, problem):
    with pytest.raises(LogError, match=problem):
        read(text)
