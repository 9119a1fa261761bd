"""What is asked for in Python's words, as a gang."""

from datetime import timedelta
from pathlib import Path
from typing import Unpack

import pytest

from muster.actions.errors import UserError
from muster.api.ours.notify import Event, NoticeSettings
from muster.sdk.errors import Error
from muster.sdk.options import Options, gang_of, normalize_options

CLASSES = {"priority": "", "queue_priority": "high"}


def gang(*, here=True, **options: Unpack[Options]):
    return gang_of(options, ["true"], ["train"], "default", CLASSES, on_this_machine=here)


def test_a_job_is_named_for_what_runs():
    assert gang().name.startswith("train-")
    assert gang(name="mine").name == "mine"


def test_quantities_are_numbers_or_text():
    asked = gang(workers=4, cpus=2, memory="4Gi", gpus=1)
    assert (asked.workers, asked.cpus, asked.memory, asked.gpus, asked.queue_priority) == (4, "2", "4Gi", 1, "high")


@pytest.mark.parametrize("time", ["2h", 7200, 7200.0, timedelta(hours=2), "2:00:00"])
def test_a_time_limit_has_many_forms(time):
    assert gang(time=time).time_limit == 7200


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"elastic": "2"}, "elastic='2': "),
        ({"elastic": "2:4", "workers": 5}, "workers=5 is not within elastic='2:4'"),
        ({"elastic": "2:4", "time": "1h", "signal": "USR1"}, "signal='USR1': workers of an elastic job start at"),
        ({"elastic": "2:4", "start_timeout": 9}, "start_timeout=9: the workers of an elastic job do not wait"),
        ({"signal": "USR1"}, "time= or signal=: a signal needs a time limit: add --time"),
        ({"name": "No Name"}, "'No Name': at most"),
        ({"notify_on": ("end",)}, "notify_on=: name whom to tell with notify="),
        ({"here": False}, "workers of this cluster need an image: name one with image="),
    ],
)
def test_what_cannot_be_meant_is_said(options, said):
    with pytest.raises(UserError) as caught:
        gang(**options)
    assert str(caught.value).startswith(said)


def test_a_job_tells_one_or_several() -> None:
    assert gang(**normalize_options({"notify": "ada@example.org"})).notify == NoticeSettings(("ada@example.org",))
    several = normalize_options({"notify": ["https://a.example/hook", "echo done"], "notify_on": ("start", "fail")})
    told = NoticeSettings(("https://a.example/hook", "echo done"), frozenset({Event.START, Event.FAIL}))
    assert gang(**several).notify == told
    assert gang(**normalize_options({"notify": "true", "notify_on": "start,fail"})).notify.events == told.events
    assert not gang(**normalize_options({"notify": []})).notify


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workers": 0}, "workers=0: it is from 1 to "),
        ({"notify": "two\nlines"}, "notify='two\\nlines': 'two\\nlines': a notice goes to a URL,"),
        (
            {"notify": ["a"] * 2 + list("bcdef")},
            "notify=['a', 'a', 'b', 'c', 'd', 'e', 'f']: 6 targets are more than 5",
        ),
        (
            {"notify_on": "ending"},
            "notify_on='ending': 'ending' is no event of a job: there are start, requeue, end, fail",
        ),
        ({"gpus": -1}, "gpus=-1: it is from 0 to "),
        ({"retries": -1}, "retries=-1: it is from 0 to 1000000"),
        ({"start_timeout": 0}, "start_timeout=0: it is from 1 to "),
        ({"cpus": "two"}, "cpus='two': 'two' is no quantity; write it as 8 or 500m"),
        ({"cpus": -1}, "cpus=-1: -1 is below 0"),
        ({"cpus": float("nan")}, "cpus=nan: 'nan' is no quantity"),
        ({"memory": "4gb"}, "memory='4gb': '4gb' is no quantity; write it as 512Mi or 32Gi"),
        ({"memory": "4"}, "memory='4': 4 is less than a megabyte; say it with a unit, as 512Mi or 4Gi"),
        ({"time": "soon"}, "time='soon': 'soon' is no time"),
        ({"time": ""}, "time='': '' is no time"),
        ({"time": 0}, "time=0: 0.000s: it is from 1s"),
        ({"time": timedelta(days=-1)}, "time=datetime.timedelta(days=-1): -86400.000s: it is from 1s"),
        ({"time": float("inf")}, "time=inf: 'infs' is no time"),
    ],
)
def test_a_value_that_cannot_be_meant_is_said_before_a_cluster_is_asked(options, said):
    with pytest.raises(Error) as caught:
        normalize_options(options)
    assert str(caught.value).startswith(said)


def test_an_option_that_there_is_not_is_named_with_those_that_there_are():
    with pytest.raises(TypeError, match="there is no option 'cpu'; there is: workers, cpus, "):
        normalize_options({"cpu": 1})


class Two:
    """A whole number of a library's own, as NumPy has them."""

    def __index__(self):
        return 2


def test_numbers_of_libraries_and_paths_are_taken_and_none_is_not_asked():
    asked = normalize_options(
        {"workers": Two(), "workdir": Path("/data"), "env": {"DATA": Path("/data")}, "gpus": None}
    )
    assert asked == {"workers": 2, "workdir": "/data", "env": {"DATA": "/data"}}
    assert type(asked["workers"]) is int


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workers": "2"}, "workers='2': it is a whole number"),
        ({"workers": 2.0}, "workers=2.0: it is a whole number"),
        ({"gpus": True}, "gpus=True: it is a whole number"),
        ({"memory": 4}, "memory=4: it is text, as '4Gi'"),
        ({"cpus": [1]}, "cpus=[1]: it is a number or text"),
        ({"time": True}, "time=True: it is a number or text"),
        ({"exclusive": "no"}, "exclusive='no': it is True or False"),
        ({"name": 5}, "name=5: it is text"),
        ({"notify": 5}, "notify=5: it is text, or a list of texts"),
        ({"notify": ["a", 5]}, "notify=5: it is text"),
        ({"elastic": (1, 2)}, "elastic=(1, 2): it is text, as '2:8'"),
        ({"env": {"SEED": 1}}, "env['SEED']=1: it is text, as '1'"),
        ({"labels": ["team"]}, "labels=['team']: it is a dict of names and texts"),
    ],
)
def test_what_is_of_another_type_is_said(options, said):
    with pytest.raises(TypeError) as caught:
        normalize_options(options)
    assert str(caught.value).startswith(said)
