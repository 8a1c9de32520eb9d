"""Answers what-ifs of pages and of the API out of the board that the observer holds anyway.

Decides that one question is answered at a time and within a bound, so that curiosity does not hold up the
watch. Refuses to write anything but the answer, which is forgotten within seconds.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import orjson
import redis

from fleet.bus import outbox
from fleet.gangs.answering import answer
from fleet.gangs.asking import LISTENS_SECONDS, answer_key, listens_key, questions_key
from fleet.gangs.questions import Answers, question_of
from fleet.observer.gangs import Gangs
from fleet.observer.session import Session

log = logging.getLogger(__name__)
BUDGET = 1.0  # seconds for all questions of one asker; he waits not much longer
LISTEN = 1.0
RETRY = 2.0
ANSWER_SECONDS = 5


class GangAsks:
    def __init__(self, session: Session, gangs: Gangs) -> None:
        self._session, self._gangs = session, gangs

    def run(self) -> None:
        """Until the session ends. A Redis that is away is asked again."""
        key, heard = questions_key(self._session.cluster_id), listens_key(self._session.cluster_id)
        while not self._session.stopping():
            try:
                outbox.connection().set(heard, 1, ex=LISTENS_SECONDS)
                told: Any = outbox.connection().blpop([key], LISTEN)
                if told is not None:
                    self.serve(told[1])
            except (redis.RedisError, OSError):
                self._session.stop.wait(RETRY)
            except Exception:
                log.exception("a what-if was not answered")

    def serve(self, body: bytes) -> bool:
        """Answer one asker; False where there is nothing to answer by or nothing was asked."""
        try:
            asked = orjson.loads(body)
            token, raw = str(asked["token"]), list(asked["ask"])
        except (ValueError, TypeError, LookupError):
            return False
        questions = [found for found in map(question_of, raw) if found is not None]
        if not questions or len(questions) != len(raw):
            return False
        end = time.monotonic() + BUDGET
        with self._gangs.standing:
            board, at = self._gangs.board, self._gangs.board_at
            if board is None or at is None:
                return False
            found = answer(board, questions, lambda: time.monotonic() > end)
        with outbox.connection().pipeline() as pipe:
            pipe.rpush(answer_key(token), orjson.dumps(Answers(at.isoformat(), found)))
            pipe.expire(answer_key(token), ANSWER_SECONDS)
            pipe.execute()
        return True
