"""A Redis for each test, and the ways that records take from a window to a store."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.pipeline.queue.redis_server import RedisServer
from tests.integration.pipeline.queue.ways import DirectWay, RedisWay, Way
from tests.servers import started


@pytest.fixture
def redis_server(server_folder: Callable[[], Path]) -> Iterator[RedisServer]:
    server = RedisServer(server_folder())
    started(server)
    yield server
    server.client.close()
    server.stop()


@pytest.fixture(params=["none", "redis"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Way]:
    if request.param == "none":
        made: Way = DirectWay(tmp_path)
    else:
        made = RedisWay(tmp_path, request.getfixturevalue("redis_server"))
    yield made
    made.end()

