"""The patch that resizes a Job: which sizes its workers are told of at once."""

from typing import Any

import msgspec
import pytest

from muster.api.batch import Job
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.ours.elastic import ELASTIC_ANNOTATION, HELD_ANNOTATION, WORLD_ANNOTATION
from muster.controllers.elastic.placement import make_resize_patch


@pytest.mark.parametrize(
    ("queued", "completions", "said", "size", "told"),
    [
        (False, 2, 2, 4, (4, 6)),
        (False, 4, 4, 2, (2, 6)),
        (True, 4, 4, 2, (2, 6)),
        # Growth is on credit until there is quota for it,
        (True, 2, 2, 4, None),
        # and so is what remains of it when it was too much.
        (True, 8, 2, 6, None),
        (True, 8, 2, 2, None),
        # Pods of the size that was too large may have been born with epoch 6.
        (True, 8, 2, 1, (1, 7)),
    ],
)
def test_the_world_goes_with_the_size_unless_that_is_on_credit_or_known(
    queued: bool, completions: int, said: int, size: int, told: tuple[int, int] | None
) -> None:
    document: dict[str, Any] = {
        "metadata": {
            "name": "j",
            "labels": {QUEUE_NAME_LABEL: "q"} if queued else {},
            "annotations": {ELASTIC_ANNOTATION: "1:8", WORLD_ANNOTATION: f'{{"size":{said},"epoch":5}}'},
        },
        "spec": {"completions": completions, "parallelism": completions, "completionMode": "Indexed"},
    }
    document["spec"]["template"] = {"spec": {"containers": [], "restartPolicy": "Never"}}
    patch = make_resize_patch(msgspec.convert(document, Job), size)
    assert patch["spec"] == {"completions": size, "parallelism": size}
    wanted = {WORLD_ANNOTATION: f'{{"size":{told[0]},"epoch":{told[1]}}}'} if told else {}
    assert patch["metadata"]["annotations"] == wanted


@pytest.mark.parametrize(
    ("held", "size", "told"), [("4/u", 2, "2/u"), ("4/u", 6, None), ("4", 2, "2/u"), ("4/v", 2, None), (None, 2, None)]
)
def test_a_gang_that_shrinks_holds_fewer_members(held: str | None, size: int, told: str | None) -> None:
    annotations = {ELASTIC_ANNOTATION: "1:8"} | ({HELD_ANNOTATION: held} if held is not None else {})
    meta = {"name": "j", "uid": "u", "annotations": annotations}
    document = {"metadata": meta, "spec": {"completions": 4, "parallelism": 4}}
    patch = make_resize_patch(msgspec.convert(document, Job), size)
    assert patch["metadata"]["annotations"].get(HELD_ANNOTATION) == told
