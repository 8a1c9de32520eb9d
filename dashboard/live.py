"""The live stream: server-sent events that say what changed, never what it is now.

Decides who may listen, and hands back the database connection and the thread before the first byte: a stream costs
neither. Ends after a quarter of an hour so that rights are asked again. Refuses to carry state: pages fetch that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from asgiref.sync import SyncToAsync, sync_to_async
from django.db import connections
from django.http import HttpRequest, StreamingHttpResponse

from dashboard.hub import END, Batch, hub
from fleet.access.decorators import needs
from fleet.access.rights import VIEW
from fleet.access.selectors import visible_clusters
from fleet.inventory.models import Cluster

BEAT_SECONDS = 15
LIFE_SECONDS = 900
HELLO = b"retry: 2000\n\nevent: hello\ndata: {}\n\n"
BEAT = b": beat\n\n"


@needs(VIEW)
async def live(request: HttpRequest) -> StreamingHttpResponse:
    clusters = await sync_to_async(_scope)(request)
    age = request.GET.get("age", "")  # milliseconds since the page was asked for
    seconds = int(age) / 1000 if age.isdecimal() and len(age) < 10 else 0.0
    response = StreamingHttpResponse(_events(clusters, seconds), content_type="text/event-stream")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


def _scope(request: HttpRequest) -> frozenset[int] | None:
    """Ids of the clusters whose hints this user may see (None: all); afterwards this thread holds no connection."""
    try:
        names = visible_clusters(request.user, VIEW)
        if names is None:
            return None
        return frozenset(Cluster.objects.filter(name__in=names).values_list("pk", flat=True))
    finally:
        connections.close_all()


def _let_go_of_the_thread() -> None:
    """Under ASGI each request owns one thread for its synchronous code until its response ends. A stream needs none."""
    owner = SyncToAsync.thread_sensitive_context.get(None)
    executor = SyncToAsync.context_to_thread_executor.pop(owner, None) if owner is not None else None
    if executor is not None:
        executor.shutdown(wait=False)


async def _events(clusters: frozenset[int] | None, age: float) -> AsyncIterator[bytes]:
    _let_go_of_the_thread()
    end = asyncio.get_running_loop().time() + LIFE_SECONDS
    async with hub().listen(age) as queue:
        yield HELLO
        while asyncio.get_running_loop().time() < end:
            try:
                item = await asyncio.wait_for(queue.get(), BEAT_SECONDS)
            except TimeoutError:
                yield BEAT
                continue
            event = item.event_for(clusters) if isinstance(item, Batch) else bytes(item)
            if event:
                yield event
            if item is END:
                return
