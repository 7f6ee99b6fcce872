"""The embedded context: a list of messages."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import final

from ._core.values import Json

__all__ = ["MemoryContext"]


@final
class MemoryContext:
    """A conversation in memory.

    Adding is one step that cannot be interrupted, so it never leaves half a message, and
    `confirm` knows the answer.

    Args:
        messages: what the conversation starts with.
        attachment_kinds: the kinds (the `"type"` of each) of attachments that may be submitted.
    """

    def __init__(
        self,
        messages: Iterable[dict[str, Json]] = (),
        *,
        attachment_kinds: Collection[str] = (),
    ) -> None:
        self.messages: list[dict[str, Json]] = list(messages)
        self.attachment_kinds: frozenset[str] = frozenset(attachment_kinds)

    async def add_message(self, message: dict[str, Json], /) -> None:
        """Append `message`, at once: this never waits and is no checkpoint."""
        self.messages.append(message)

    async def confirm(self, input_id: str, /) -> bool:
        """Whether the conversation holds the input; at once, no checkpoint."""
        return any(
            message.get("metadata", {}).get("input_id") == input_id for message in self.messages
        )
