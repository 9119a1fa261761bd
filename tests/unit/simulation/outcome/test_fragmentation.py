from muster.simulation.outcome.fragmentation import FreeRoom, FreeRooms
from muster.simulation.outcome.nodelog import NodeLog


def test_gangs_use_free_room_in_multiples_of_their_size():
    room = FreeRoom("w", "gpu", 8)
    room.add(0.0, 100, 7)
    assert [room.usable(0, size) for size in (1, 2, 4, 8)] == [56, 48, 32, 0]


def test_times_are_thinned_out_when_they_are_too_many():
    rooms = FreeRooms(most_times=4)
    room = rooms.by_work["w"] = FreeRoom("w", "gpu", 8)
    for now in range(20):
        if rooms.is_due(now):
            room.add(now, now, now)
            rooms.schedule_next(now)
    assert len(room.times) <= 5
    assert list(room.times) == sorted(room.times)
    assert room.times[0] == 0


def test_the_log_of_nodes_is_bounded_and_says_so():
    log = NodeLog(most_stays=2)
    log.start(0, {"a": 1, "b": 3}, 1.0)
    log.start(1, {"a": 1}, 5.0)
    log.end(1, 6.0)
    log.end(0, 7.0)
    assert (log.names, list(log.pods), list(log.ends), log.complete_until) == (["a", "b"], [1, 3], [7.0, 7.0], 5.0)
