"""`--listen` and `--name`, by example."""

import pytest

from muster.cluster.exposure import UNEXPOSED, Address, Exposure, ExposureError, make_url, parse


@pytest.mark.parametrize(
    ("listen", "also", "addresses", "certified"),
    [
        ([], [], (), ()),
        (["10.0.0.5"], [], (Address("10.0.0.5"),), ("10.0.0.5",)),
        (["10.0.0.5:7443"], [], (Address("10.0.0.5", 7443),), ("10.0.0.5",)),
        (["10.0.0.5:0"], [], (Address("10.0.0.5", 0),), ("10.0.0.5",)),
        (["Box1.Lab"], ["box1"], (Address("box1.lab"),), ("box1", "box1.lab")),
        (["fd00:0:0::1"], [], (Address("fd00::1"),), ("fd00::1",)),
        (["[fd00::1]:7443"], [], (Address("fd00::1", 7443),), ("fd00::1",)),
        (["[fd00::1]"], [], (Address("fd00::1"),), ("fd00::1",)),
        (["0.0.0.0"], ["box1", "10.0.0.5"], (Address("0.0.0.0"),), ("box1", "10.0.0.5")),
        (["box1", "[::]:1"], [], (Address("box1"), Address("::", 1)), ("box1",)),
    ],
)
def test_parse(listen, also, addresses, certified):
    found = parse(listen, also)
    assert (found.addresses, found.certified) == (addresses, certified)


@pytest.mark.parametrize(
    ("listen", "also", "problem"),
    [
        ([""], [], "--listen: '' is neither a host name nor an address"),
        (["a b"], [], "'a b' is neither a host name nor an address"),
        (["https://box1"], [], "'//box1' is not a port"),
        (["box1:x"], [], "--listen box1:x: 'x' is not a port"),
        (["box1:65536"], [], "'65536' is not a port"),
        (["box1:"], [], "'' is not a port"),
        (["[fd00::1"], [], "expected [ADDRESS] or [ADDRESS]:PORT"),
        (["[fd00::1]7"], [], "expected [ADDRESS] or [ADDRESS]:PORT"),
        (["fe80::1%eth0"], [], "is valid on this machine only"),
        (["0.0.0.0"], [], "--listen 0.0.0.0: that is every address of this machine"),
        (["[::]:7"], [], "add --name, with its host name or address"),
        (["box1"], ["0.0.0.0"], "no machine is reached by an address that means all of them"),
        (["box1"], ["box1:7"], "--name: 'box1:7' is neither"),
        ([], ["box1"], "--name says how others reach the server, which needs --listen ADDRESS"),
    ],
)
def test_what_makes_no_sense(listen, also, problem):
    with pytest.raises(ExposureError) as raised:
        parse(listen, also)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("listen", "inside", "outside"),
    [
        ([], ("127.0.0.1", 6443), []),
        (["10.0.0.5"], ("127.0.0.1", 6443), [("10.0.0.5", 6443)]),
        (["10.0.0.5:7"], ("127.0.0.1", 6443), [("10.0.0.5", 7)]),
        (["127.0.0.1"], ("127.0.0.1", 6443), [("127.0.0.1", 6443)]),
        (["0.0.0.0"], ("0.0.0.0", 6443), [("0.0.0.0", 6443)]),
        (["0.0.0.0:6443"], ("0.0.0.0", 6443), [("0.0.0.0", 6443)]),
        (["0.0.0.0:7"], ("127.0.0.1", 6443), [("0.0.0.0", 7)]),
        (["[::]"], ("127.0.0.1", 6443), [("::", 6443)]),
        (["10.0.0.5:0", "0.0.0.0"], ("0.0.0.0", 6443), [("10.0.0.5", 0), ("0.0.0.0", 6443)]),
    ],
)
def test_programs_of_this_machine_always_find_it_on_loopback(listen, inside, outside):
    found = parse(listen, ["box1"]) if listen else UNEXPOSED
    assert (found.inside(6443), found.outside(6443)) == (inside, outside)


def test_urls():
    assert (make_url("box1", 6443), make_url("fd00::1", 7)) == ("https://box1:6443", "https://[fd00::1]:7")
    assert Exposure((Address("10.0.0.5"),), ("box1",)).certified == ("box1", "10.0.0.5")
