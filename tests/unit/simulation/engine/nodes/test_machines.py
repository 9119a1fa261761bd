"""At rest, the gang that comes first has no room."""

from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.gang.conftest import make_node, make_pod

from muster.gang.order.ends import EndTime
from muster.gang.placement import Refusal
from muster.gang.shapes import shape_of
from muster.simulation.engine.nodes.gangask import GangAsk, make_criteria
from muster.simulation.engine.nodes.machines import Machines

ONE = shape_of(make_pod(cpu="1"))
CPUS, SOON, LATE = 5, 5.0, 1000.0

# A gang: its tenant, how many pods it has and how long it runs. An end: of which of the gangs that have come.
comes = st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.sampled_from([None, SOON, LATE]))
ends = st.integers(0, 20)


# The start of one gang in a sweep puts another before the first gang of its class, which is kept back for it.
OVERTAKEN = [("a", 2, None), ("a", 2, SOON), ("a", 1, LATE), ("b", 1, None), ("b", 1, None), ("b", 1, SOON)]

# The head starts in a sweep, and by that the gang that is the head next, of the same tenant, comes after another one.
SUCCEEDED = [("a", 1, None), ("a", 1, None), ("a", 2, None), ("a", 1, SOON), ("c", 2, None), 0]


@given(st.lists(comes | ends, max_size=25))
@example([*SUCCEEDED, ("a", 1, LATE), ("c", 2, SOON), ("c", 1, None), 2])
@example([*OVERTAKEN, ("a", 1, SOON), 1, ("a", 1, None), 0])
def test_at_rest_the_first_gang_has_no_room(steps):
    machines = Machines([make_node("node", resources={"cpu": str(CPUS)})])
    came = 0
    for now, step in enumerate(steps):
        match step:
            case int(number):
                if machines.runs(str(number)):
                    machines.free(str(number))
            case tenant, pods, lasts:
                end = None if lasts is None else EndTime(lasts, is_enforced=True)
                machines.ask(GangAsk.of(str(came), make_criteria(0, tenant, now), {ONE: pods}, end), now)
                came += 1
        list(machines.sweep(now))
        if first := next(iter(machines.list_asks()), None):
            assert isinstance(first.place(machines.capacity), Refusal)
