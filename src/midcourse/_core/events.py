"""The event log: gapless numbers, a bounded history, publishing that waits for nobody.

The history is the one buffer. A subscriber is a cursor into it, so that publishing costs the
same for any number of them and for any length of the history, and a slow one can only harm
itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final, final

from .values import Json

__all__ = ["Event", "EventLog", "Gap"]

VERSION: Final = 1


@final
@dataclass(frozen=True, slots=True)
class Event:
    """One thing that has happened; the state that it tells of was committed before.

    Attributes:
        version: of the contract, 1.
        sequence: 1, 2, ... without a gap in one session.
        session_id: the session.
        time: seconds since the epoch, as the runtime's clock gave them.
        type: as in the contract's table.
        data: what this type carries, read-only.
    """

    version: int
    sequence: int
    session_id: str
    time: float
    type: str
    data: Mapping[str, Json]

    def __reduce__(self) -> tuple[object, ...]:
        # The read-only view of `data` can be neither copied nor pickled, so a dict goes instead.
        data = dict(self.data)
        return Event, (self.version, self.sequence, self.session_id, self.time, self.type, data)

    def to_json(self) -> dict[str, Json]:
        """The event as one flat JSON mapping, a fresh copy."""
        return {
            "version": self.version,
            "sequence": self.sequence,
            "session_id": self.session_id,
            "time": self.time,
            "type": self.type,
            **{k: list(v) if isinstance(v, tuple) else v for k, v in self.data.items()},
        }


@final
@dataclass(frozen=True, slots=True)
class Gap:
    """Stands in a subscription for events that it was too slow to read.

    Attributes:
        lost: how many.
        first: the sequence number of the first lost event.
        last: that of the last; `LiveRuntime.events` may still have some of them.
    """

    lost: int
    first: int
    last: int


@final
class EventLog:
    """All events of one session, the last `limit` of them kept."""

    __slots__ = ("_clock", "_history", "_notify", "last", "session_id")

    def __init__(
        self,
        session_id: str,
        limit: int,
        clock: Callable[[], float],
        notify: Callable[[str, Mapping[str, Json]], None],
    ) -> None:
        self.session_id: str = session_id
        self.last: int = 0
        self._clock = clock
        self._notify = notify
        self._history: deque[tuple[float, str, Mapping[str, Json]]] = deque(maxlen=limit)

    @property
    def first(self) -> int:
        """The number of the oldest event that is still kept."""
        return self.last - len(self._history) + 1

    def append(self, type: str, data: Mapping[str, Json]) -> None:
        """Publish one event: O(1), whatever the history holds and whoever listens."""
        self._history.append((self._clock(), type, data))
        self.last += 1
        self._notify(type, data)

    def get(self, sequence: int) -> Event:
        """The event with this number; it must still be kept."""
        return self._event(sequence, *self._history[sequence - self.first])

    def after(self, sequence: int) -> Iterator[Event]:
        """The kept events with greater numbers than `sequence`."""
        start = max(sequence + 1, self.first)
        rows = islice(self._history, start - self.first, None)
        for number, row in enumerate(rows, start):
            yield self._event(number, *row)

    def _event(self, sequence: int, time: float, type: str, data: Mapping[str, Json]) -> Event:
        return Event(VERSION, sequence, self.session_id, time, type, MappingProxyType(data))
