from muster.api.core import Node, NodeCondition, NodeStatus
from muster.api.meta import ObjectMeta
from muster.gang.nodes.capacity import Capacity
from muster.gang.shapes import Guest, Shape
from muster.simulation.engine.nodes.freeroom import find_scarcest, measure_rooms, sum_capacity
from muster.simulation.outcome.fragmentation import FreeRooms


def two_nodes():
    capacity = Capacity()
    for name in ("n-0", "n-1"):
        ready = NodeCondition(type="Ready", status="True")
        status = NodeStatus(allocatable={"cpu": "4", "memory": "100", "pods": "10"}, conditions=(ready,))
        capacity.set_node(Node(metadata=ObjectMeta(name=name), status=status))
    return capacity


def shape(cpu, **other):
    return Shape(tuple(sorted({"cpu": cpu, "pods": 1, **other}.items())))


def test_all_nodes_count():
    assert sum_capacity(two_nodes()) == {"cpu": 8000, "memory": 200, "pods": 20}


def test_the_scarcest_resource_is_the_one_of_the_largest_share():
    assert find_scarcest(two_nodes(), shape(1000, memory=10)) == ("cpu", 1000)
    assert find_scarcest(two_nodes(), shape(1000, memory=30)) == ("memory", 30)
    assert find_scarcest(two_nodes(), Shape((("pods", 1),))) == ("pods", 1)


def test_room_in_pieces_is_free_and_does_not_fit():
    capacity, rooms = two_nodes(), FreeRooms()
    for name in ("n-0", "n-1"):
        capacity.assign(name, name, Guest((("cpu", 2000),)))
    measure_rooms(rooms, capacity, [("big", shape(3000)), ("small", shape(1500)), ("big", shape(1))], 0.0)
    found = {work: (list(room.times), list(room.free), list(room.fitting)) for work, room in rooms.by_work.items()}
    assert found == {"big": ([0.0], [4000], [0]), "small": ([0.0], [4000], [2])}


def test_it_looks_again_only_when_it_is_time():
    capacity, rooms = two_nodes(), FreeRooms()
    for now in (0.0, 0.5, 1.0):
        measure_rooms(rooms, capacity, [("w", shape(1000))], now)
    assert list(rooms.by_work["w"].times) == [0.0, 1.0]
