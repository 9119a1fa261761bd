"""The errors of the Python interface, as other processes get them."""

import pickle

from muster.sdk.errors import JobFailedError


def test_the_error_of_a_job_comes_back_from_another_process():
    error = JobFailedError("train", "rank 1: ended with exit code 3", 3)
    error.add_note("a note")
    copy = pickle.loads(pickle.dumps(error))
    assert [type(copy), str(copy), copy.name, copy.code, copy.__notes__] == [
        JobFailedError,
        "train: rank 1: ended with exit code 3",
        "train",
        3,
        ["a note"],
    ]
