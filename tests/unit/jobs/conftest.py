import pytest
from tests.unit.jobs.world import World, job_of


@pytest.fixture
def indexed() -> World:
    """An elastic Indexed Job of three."""
    return World(job_of({"completionMode": "Indexed", "completions": 3, "parallelism": 3}))
