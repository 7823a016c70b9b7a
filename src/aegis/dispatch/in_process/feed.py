"""Fan-out of "there are new rows" hints to the streams of one process."""

import asyncio

from aegis.domain.micros import Micros, seconds
from aegis.ports.event_feed import Subscription


class _Reader:
    """One subscription: a flag that many hints set once, so a slow reader costs nothing."""

    def __init__(self, feed: "InProcessFeed", task_id: str) -> None:
        self._feed = feed
        self._task_id = task_id
        self._news = asyncio.Event()

    def hint(self) -> None:
        self._news.set()

    async def wait(self, timeout_micros: Micros) -> bool:
        """See `Subscription.wait`."""
        try:
            async with asyncio.timeout(seconds(timeout_micros)):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    def close(self) -> None:
        """See `Subscription.close`."""
        self._feed.drop(self._task_id, self)


class InProcessFeed:
    """`EventFeed` by direct signals on one event loop."""

    def __init__(self) -> None:
        self._readers: dict[str, set[_Reader]] = {}

    @property
    def readers(self) -> int:
        """How many subscriptions are open."""
        return sum(len(readers) for readers in self._readers.values())

    def publish(self, task_id: str) -> None:
        """See `EventFeed.publish`."""
        for reader in self._readers.get(task_id, ()):
            reader.hint()

    def subscribe(self, task_id: str) -> Subscription:
        """See `EventFeed.subscribe`."""
        reader = _Reader(self, task_id)
        self._readers.setdefault(task_id, set()).add(reader)
        return reader

    def drop(self, task_id: str, reader: _Reader) -> None:
        """End one subscription; unknown ones are ignored."""
        readers = self._readers.get(task_id)
        if readers is None:
            return
        readers.discard(reader)
        if not readers:
            del self._readers[task_id]
