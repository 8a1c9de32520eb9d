"""Counts failed log-ins.

Decides that a name from one address may fail ten times in five minutes, counted in Redis for all web processes and in
this process's memory while Redis is away. Refuses to lock an account: another address is not concerned.
"""

from __future__ import annotations

import hashlib

import redis
from django.core.cache import cache

from fleet.bus.outbox import connection

LIMIT = 10
WINDOW_SECONDS = 300


def _key(name: str, address: str) -> str:
    return "muster:login:" + hashlib.sha256(f"{name.lower()}\0{address}".encode()).hexdigest()[:32]


def too_many(name: str, address: str) -> bool:
    key = _key(name, address)
    try:
        count = int(connection().get(key) or 0)
    except redis.RedisError:
        count = 0
    return max(count, int(cache.get(key, 0))) >= LIMIT


def failed(name: str, address: str) -> None:
    key = _key(name, address)
    try:
        with connection().pipeline() as pipe:
            pipe.incr(key)
            pipe.expire(key, WINDOW_SECONDS)
            pipe.execute()
    except redis.RedisError:
        cache.add(key, 0, WINDOW_SECONDS)
        cache.incr(key)


def forget(name: str, address: str) -> None:
    key = _key(name, address)
    cache.delete(key)
    try:
        connection().delete(key)
    except redis.RedisError:
        return
