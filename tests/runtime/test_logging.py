"""What the library logs."""

import logging

import pytest

from midcourse import MemoryContext
from tests.engine.scene import PROMPT, finish_at_once, new_runtime
from tests.support.backends import Backend


@pytest.mark.promise("house.logging")
def test_the_end_of_a_generation_is_logged_without_content(
    run: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), MemoryContext()
        with caplog.at_level(logging.DEBUG, logger="midcourse"):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await finish_at_once(generation)

    run(test)
    (record,) = [record for record in caplog.records if record.name == "midcourse"]
    assert "generation g1 finished (None) after 1 requests" in record.getMessage()
    assert PROMPT.text not in caplog.text
