"""The use of quotas and nodes, from a record."""

from muster.queueing.model import FlavorResource
from muster.simulation.outcome.assertions import judge, parse_assertion
from muster.simulation.outcome.record import SimulationRecord
from muster.simulation.outcome.timeline import build_timeline
from muster.simulation.outcome.usechanges import RecordedUse


class CountingRecord(SimulationRecord):
    """A record that counts how often the changes of use are read from it."""

    reads = 0

    def changes(self):
        self.reads += 1
        return super().changes()


def test_assertions_and_the_timeline_read_a_record_once():
    record = CountingRecord(["w"])
    record.quotas.set(0.0, "q", {FlavorResource("f", "cpu"): 1000})
    record.change(0.0, "q", "f", "cpu", 3000)
    record.now = 10.0
    use = RecordedUse(record)
    texts = [f"max({metric}, resource=cpu) < 9" for metric in ("used", "borrowed", "utilisation", "borrowed")]
    assert [judge(parse_assertion(text, {}), [], use).value for text in texts] == [3.0, 2.0, 3.0, 2.0]
    assert build_timeline(use).quotas["q", "f", "cpu"].borrowed[0] == 2000
    assert record.reads == 1
