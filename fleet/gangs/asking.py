"""Asks the observer of a cluster, which alone holds its board, and waits a moment for the answer.

Decides the way there and back: a list in Redis each, both forgotten within seconds; and that nobody waits for an
observer that does not listen. Refuses to be a truth: without an answer it is not known, and nothing is stored, decided
or written upon one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import orjson
import redis

from fleet.bus.outbox import connection
from fleet.gangs.questions import QUESTIONS_AT_MOST, Answers, Question, answers_of

PATIENCE = 1.5  # seconds that a page waits
KEPT_SECONDS = 3  # a question that nobody took up is no question any more
LISTENS_SECONDS = 8  # so long an observer is believed to listen; it says so with every look into its list
WAITING_AT_MOST = 20


def questions_key(cluster_id: int) -> str:
    return f"muster:ask:{cluster_id}"


def answer_key(token: str) -> str:
    return f"muster:answer:{token}"


def listens_key(cluster_id: int) -> str:
    return f"muster:listens:{cluster_id}"


def listens(cluster_id: int) -> bool:
    return bool(connection().exists(listens_key(cluster_id)))


def ask(cluster_id: int, questions: Sequence[Question], patience: float = PATIENCE) -> Answers | None:
    """None: nobody listens, nobody answered in time, or it could not be read."""
    token = secrets.token_hex(8)
    body = orjson.dumps({"token": token, "ask": list(questions[:QUESTIONS_AT_MOST])})
    key = questions_key(cluster_id)
    try:
        if not listens(cluster_id):
            return None
        with connection().pipeline() as pipe:
            pipe.rpush(key, body)
            pipe.ltrim(key, -WAITING_AT_MOST, -1)
            pipe.expire(key, KEPT_SECONDS)
            pipe.execute()
        told: Any = connection().blpop([answer_key(token)], patience)
    except redis.RedisError:
        return None
    if told is None:
        return None
    try:
        return answers_of(orjson.loads(told[1]))
    except (ValueError, TypeError, LookupError):
        return None
