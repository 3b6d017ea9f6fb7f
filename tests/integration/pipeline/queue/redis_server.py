"""A Redis of a test's own, which may be killed and started again."""

from functools import cached_property

import redis

from bellrock.stack.redis import Redis
from pipeline.queue.redis import RedisSettings


class RedisServer(Redis):
    """See Redis. `client` looks at it from outside."""

    @cached_property
    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port)

    def queue(self, **changes) -> RedisSettings:
        """The queue in it."""
        return RedisSettings(**{"url": self.url, "lease_s": 5.0, **changes})
