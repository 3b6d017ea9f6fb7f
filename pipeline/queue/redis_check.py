"""Whether a Redis keeps what it is given."""

import logging
from typing import Any

import redis

log = logging.getLogger(__name__)

# The first with flags for scripts, without which a queue that is out of memory could not be emptied.
MAJOR_VERSION_MIN = 7
SETTINGS = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")


def check(client: redis.Redis, name: str) -> list[str]:
    """What of its settings loses records, and what to do; each is logged. Raises redis.RedisError, also where it is too old."""
    server = client.info("server")
    if int(str(server["redis_version"]).split(".")[0]) < MAJOR_VERSION_MIN:
        raise redis.RedisError(f"it is version {server['redis_version']}, and {MAJOR_VERSION_MIN} or newer is needed; install a newer one")
    try:
        settings: dict[str, Any] = client.config_get(*SETTINGS)
    except redis.ResponseError as error:
        warnings = [f"whether it keeps what it is given cannot be seen ({error}); let our user run `CONFIG GET`"]
    else:
        warnings = unsafe(settings)
    for text in warnings:
        log.warning("queue %s: %s", name, text)
    return warnings


def unsafe(settings: dict[str, Any]) -> list[str]:
    """What of these settings loses records, and what to do."""
    warnings = []
    if settings.get("appendonly") != "yes":
        warnings.append("appendonly is off: what is acknowledged is lost when Redis ends; set `appendonly yes` and `appendfsync always` in redis.conf")
    elif settings.get("appendfsync") != "always":
        warnings.append(f"appendfsync is {settings.get('appendfsync')}: what is acknowledged may be lost when the host fails; set `appendfsync always` in redis.conf")
    policy = str(settings.get("maxmemory-policy", ""))
    if policy.startswith("allkeys") and str(settings.get("maxmemory")) != "0":
        warnings.append(f"maxmemory-policy is {policy}: the list is thrown away when memory runs out; set `maxmemory-policy noeviction` in redis.conf")
    return warnings
