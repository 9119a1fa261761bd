"""The CPUs of a worker whose user names none."""

import pytest

from muster.actions.errors import UserError
from muster.actions.submission.defaultcpus import read_default, set_default_cpus
from muster.actions.submission.gang import Gang, Role
from muster.actions.submission.sweep import Sweep
from muster.api.ours.elastic import Bounds


@pytest.mark.parametrize(
    ("environ", "default"),
    [
        ({}, 1000),
        ({"MUSTER_DEFAULT_CPUS": ""}, 1000),
        ({"MUSTER_DEFAULT_CPUS": "500m"}, 500),
        ({"MUSTER_DEFAULT_CPUS": "0"}, 0),
    ],
)
def test_the_user_sets_the_default(environ, default):
    assert read_default(environ) == default


def test_a_setting_that_is_no_quantity_is_refused():
    with pytest.raises(UserError, match="MUSTER_DEFAULT_CPUS: 'many' is no quantity"):
        read_default({"MUSTER_DEFAULT_CPUS": "many"})


@pytest.mark.parametrize(
    ("workers", "nodes", "cpus"),
    [
        (1, (8000,), "1"),
        (8, (8000,), "1"),
        (16, (8000,), "500m"),
        (3, (2000,), "666m"),
        (3, (1000, 1000), "500m"),  # one node takes two
        (2, (2500, 500), "1"),
        (4, (), "1"),  # the user sees no node
        (4, (0,), "1"),
    ],
)
def test_a_gang_larger_than_the_cluster_requests_what_lets_it_start(workers, nodes, cpus):
    assert set_default_cpus(Gang("g", workers=workers), 1000, nodes).cpus == cpus


@pytest.mark.parametrize(
    ("gang", "cpus"),
    [
        (Gang("g", cpus="2"), "2"),
        (Gang("g", cpus="0"), "0"),
        (Gang("g", gpus=1), ""),
        (Gang("g", workers=8, elastic=Bounds(2, 8)), "1"),  # its least size fits
        (Gang("g", sweep=Sweep.parse("0-99", [])), "1"),  # trials queue one by one
    ],
)
def test_the_default_is_for_workers_that_name_nothing(gang, cpus):
    assert set_default_cpus(gang, 1000, (2000,)).cpus == cpus


def test_of_roles_those_without_a_request_get_it():
    roles = (Role("a", (), cpus="4"), Role("b", (), workers=2), Role("c", (), gpus=1))
    assert [role.cpus for role in set_default_cpus(Gang("g", roles=roles), 1000, ()).parts] == ["4", "1", ""]


def test_no_default_leaves_the_gang_as_it_is():
    assert set_default_cpus(Gang("g"), 0, (2000,)) == Gang("g")
