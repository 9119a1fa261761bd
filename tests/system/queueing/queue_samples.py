"""What /metrics says under Kueue's names."""

from tests.metrics import read_families
from tests.system.apiserver.harness import Api
from tests.system.plane import World

BUILD = "kueue_build_info"


async def samples(world: World) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by metric and by the values of its labels in the order of their names, but for who counts."""
    text = (await Api(world.plane).get("/metrics", accept="*/*")).body.decode()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in read_families(text, "kueue_"):
        for sample in family.samples:
            if not sample.name.endswith(("_bucket", "_created")):
                if sample.name != BUILD:
                    assert sample.labels.pop("replica_role") == "standalone"
                labels = tuple(value for _, value in sorted(sample.labels.items()))
                found.setdefault(sample.name.removeprefix("kueue_"), {})[labels] = sample.value
    return found
