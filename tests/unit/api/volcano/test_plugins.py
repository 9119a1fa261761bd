"""Arguments of the plugins of Volcano's Jobs."""

import pytest

from muster.api.volcano import PYTORCH, SVC, Job, JobSpec
from muster.api.volcano.plugins import ArgumentError, pytorch_arguments, read_arguments, svc_arguments


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ((), {}),
        (("--inject-hosts-env=false",), {"inject-hosts-env": "false"}),
        (("-publish-not-ready-addresses",), {"publish-not-ready-addresses": "true"}),
        (
            ("--publish-not-ready-addresses", "--disable-network-policy=T"),
            {"publish-not-ready-addresses": "true", "disable-network-policy": "T"},
        ),
    ],
)
def test_flags_are_read_as_go_reads_them(arguments: tuple[str, ...], read: dict[str, str]) -> None:
    assert read_arguments(SVC, arguments) == read


@pytest.mark.parametrize(
    ("plugin", "arguments"),
    [
        (SVC, ("--no-such-flag",)),
        (SVC, ("inject-hosts-env=false",)),
        (SVC, ("--inject-hosts-env=maybe",)),
        (PYTORCH, ("--port=none",)),
        (PYTORCH, ("--port=70000",)),
        (PYTORCH, ("--master",)),
        (PYTORCH, ("",)),
    ],
)
def test_what_no_plugin_has_is_refused(plugin: str, arguments: tuple[str, ...]) -> None:
    with pytest.raises(ArgumentError):
        read_arguments(plugin, arguments)


def test_arguments_have_upstreams_defaults() -> None:
    job = Job(spec=JobSpec(plugins={SVC: (), PYTORCH: ("--worker", "w")}))
    assert svc_arguments(job).inject_hosts_env
    assert not svc_arguments(job).publish_not_ready_addresses
    given = pytorch_arguments(job)
    assert (given.master, given.worker, given.port) == ("master", "w", 23456)
