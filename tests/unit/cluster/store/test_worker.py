"""A thread that does what it is given, in order, whoever waits for it."""

import asyncio
import threading

import pytest

from muster.cluster.store.worker import Worker


@pytest.fixture
def worker():
    worker = Worker("test")
    yield worker
    worker.stop()


def test_results_and_errors_come_back(worker):
    async def body():
        def fail():
            raise ValueError("no")

        assert await worker.do(lambda: 1) == 1
        with pytest.raises(ValueError, match="no"):
            await worker.do(fail)
        assert await worker.do(threading.get_ident) != threading.get_ident()

    asyncio.run(body())


def test_work_is_done_in_order_even_if_its_waiter_has_gone(worker):
    async def body():
        done, may_begin = [], threading.Event()
        first = worker.do(may_begin.wait)
        others = [worker.do(lambda number=number: done.append(number)) for number in range(5)]
        others[1].cancel()
        may_begin.set()
        await first
        await others[-1]
        return done

    assert asyncio.run(body()) == [0, 1, 2, 3, 4]


def test_it_stops_once_everything_is_done_also_for_a_loop_that_has_ended():
    done, may_begin, worker = [], threading.Event(), Worker("test")

    async def body():
        worker.do(may_begin.wait)
        worker.do(lambda: done.append(1))

    asyncio.run(body())
    may_begin.set()
    worker.stop()
    assert done == [1]
