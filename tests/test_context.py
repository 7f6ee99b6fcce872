"""The embedded context: a list that knows what it holds."""

from __future__ import annotations

from typing import Any

import pytest

from midcourse import Input, LiveRuntime, MemoryContext
from tests.support.backends import Backend

pytestmark = pytest.mark.promise("library.memory_context")


def message(name: str) -> dict[str, Any]:
    return {"role": "user", "content": "x", "metadata": {"input_id": name}}


def test_messages_are_kept_in_order_behind_those_it_began_with(run: Backend) -> None:
    async def test() -> None:
        given: list[dict[str, Any]] = [{"role": "system", "content": "be brief"}]
        context = MemoryContext(given)
        await context.add_message(message("a"))
        await context.add_message(message("b"))
        assert context.messages == [*given, message("a"), message("b")]
        assert len(given) == 1

    run(test)


def test_it_confirms_what_it_holds_and_denies_what_it_does_not(run: Backend) -> None:
    async def test() -> None:
        context = MemoryContext([{"role": "system", "content": "be brief"}])
        assert await context.confirm("a") is False
        await context.add_message(message("a"))
        assert await context.confirm("a") is True
        assert await context.confirm("b") is False

    run(test)


def test_it_takes_the_kinds_of_attachments_that_it_is_told_and_none_by_default() -> None:
    assert MemoryContext().attachment_kinds == frozenset()
    assert MemoryContext(attachment_kinds=["image"]).attachment_kinds == {"image"}


def test_an_attachment_reaches_it_as_the_host_gave_it(run: Backend) -> None:
    image = {"type": "image", "url": "data:,"}

    async def test() -> list[dict[str, Any]]:
        context = MemoryContext(attachment_kinds=["image"])
        runtime = LiveRuntime()
        first = Input("user", "look", attachments=[image])
        async with runtime.open_generation(first, context=context) as generation:
            async for request in generation.requests():
                request.finish("seen")
        return context.messages

    (written,) = run(test)
    assert written["content"] == [{"type": "text", "text": "look"}, image]
