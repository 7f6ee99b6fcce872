"""Receipts, and everything that reads: truthful, fresh, without side effects."""

# ruff: noqa: PT012  # a block that raises is what is tested

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from midcourse import IdentityConflict, Input, LiveRuntime, MemoryContext
from tests.engine.scene import (
    PROMPT,
    disposition,
    finish_at_once,
    new_runtime,
    order_of,
    steer,
    submit,
    types,
    work,
)
from tests.support.backends import Backend
from tests.support.contexts import FailingContext, GatedContext, ListContext, WriteFailed


@pytest.mark.promise("receipt.keys", "receipt.json", "word.receipt", "receipt.reason")
def test_a_receipt_is_a_plain_json_mapping_in_every_disposition(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), FailingContext(at=3)
        queued: list[Any] = []
        with pytest.raises(WriteFailed):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "applied", "unknown", "held")
                queued.append(runtime.receipt("held"))
                await generation.boundary()
        common = {"accepted": True, "generationId": "g1"}
        assert queued == [common | {"inputId": "held", "disposition": "queued"}]
        assert runtime.receipts() == [
            common | {"inputId": "applied", "disposition": "applied"},
            common
            | {
                "inputId": "unknown",
                "disposition": "unknown",
                "reason": "write_failed",
                "detail": "WriteFailed: disk full",
            },
            common | {"inputId": "held", "disposition": "held", "reason": "failed"},
        ]
        for receipt in runtime.receipts():
            assert type(receipt) is dict
            assert all(type(value) in (str, bool) for value in receipt.values())
            assert json.loads(json.dumps(receipt)) == receipt

    run(test)


@pytest.mark.promise("receipt.fresh_copy", "reading.no_side_effects")
def test_changing_a_receipt_changes_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        first: Any = await runtime.submit(Input("user", "text", id="a"))
        first["disposition"] = "applied"
        second: Any = runtime.receipt("a")
        assert second["disposition"] == "queued"
        second.clear()
        runtime.receipts()[0].clear()  # type: ignore[attr-defined]
        runtime.pending().clear()
        assert disposition(runtime, "a") == ("queued", None)

    run(test)


@pytest.mark.promise("reading.receipt", "reading.receipts", "reading.pending", "reading.input")
def test_reading_tells_what_there_is_and_changes_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "b", "a")
            before = types(runtime)
            for _ in range(3):
                assert runtime.receipt("nobody") is None
                assert runtime.input("nobody") is None
                assert [r["inputId"] for r in runtime.receipts()] == ["b", "a"]
                assert [r["inputId"] for r in runtime.pending()] == ["b", "a"]
                given = runtime.input("a")
                assert given is not None
                assert (given.id, given.text) == ("a", "text of a")
            assert types(runtime) == before
            await generation.boundary()
            await submit(runtime, "c")
            assert [r["inputId"] for r in runtime.pending()] == ["c"]
            assert [r["inputId"] for r in runtime.receipts()] == ["b", "a", "c"]
            runtime.stop()
        assert runtime.pending() == []
        assert runtime.receipt("prompt") is None  # what a host opens with is no submission

    run(test)


@pytest.mark.promise("content.kept", "content.dropped", "content.never_offered", "word.input")
def test_the_content_is_readable_as_long_as_it_is_not_applied(run: Backend) -> None:
    image = {"type": "image", "url": "data:,"}

    async def test() -> None:
        runtime, context = new_runtime(), FailingContext(at=3)
        context.attachment_kinds = ["image"]  # type: ignore[attr-defined]
        held = Input("steer", "look", id="held", attachments=[image])
        with pytest.raises(WriteFailed):
            async with runtime.open_generation(PROMPT, context=context) as generation:
                await submit(runtime, "applied", "unknown")
                await runtime.submit_steering(held, generation.id)
                await generation.boundary()
        assert runtime.input("applied") is None
        unknown, kept = runtime.input("unknown"), runtime.input("held")
        assert unknown is not None
        assert unknown.text == "text of unknown"
        assert kept is not None
        assert (kept.text, list(kept.attachments)) == ("look", [image])
        kept.attachments[0]["url"] = "changed"
        again = runtime.input("held")
        assert again is not None
        assert list(again.attachments) == [image]
        # A person may be offered it again, under a new id; the runtime does nothing by itself.
        async with runtime.open_generation(Input("user", "next"), context=context) as following:
            await work(following)
        assert "held" not in context.ids
        assert context.begun.count("unknown") == 1

    run(test)


@pytest.mark.promise("settled.waits", "reading.receipt")
def test_settled_waits_for_the_disposition(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), GatedContext(at=2)
        got: list[Any] = []

        async def waits() -> None:
            got.append(await runtime.settled("a"))

        async with (
            anyio.create_task_group() as others,
            runtime.open_generation(PROMPT, context=context) as generation,
        ):
            await submit(runtime, "a")
            others.start_soon(waits)
            others.start_soon(waits)

            async def opens() -> None:
                await context.waiting.wait()
                await submit(runtime, "b")  # another event wakes nobody
                await anyio.wait_all_tasks_blocked()
                assert got == []
                context.gate.set()

            others.start_soon(opens)
            await finish_at_once(generation)
        assert got == [runtime.receipt("a")] * 2
        assert got[0]["disposition"] == "applied"
        assert await runtime.settled("a") == got[0]
        with pytest.raises(KeyError):
            await runtime.settled("nobody")

    run(test)


@pytest.mark.promise("settled.waits", "reading.no_side_effects")
def test_a_cancelled_wait_for_the_disposition_changes_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        await runtime.submit(Input("user", "text", id="a"))
        with anyio.move_on_after(1) as scope:
            await runtime.settled("a")
        assert scope.cancelled_caught
        assert disposition(runtime, "a") == ("queued", None)
        assert runtime._settling == {}
        await runtime.aclose()
        assert (await runtime.settled("a"))["disposition"] == "held"

    run(test)


@pytest.mark.promise("settled.closing", "held.runtime_closed")
@pytest.mark.parametrize("kind", ["inbox", "boundary queue"])
def test_closing_settles_everything_so_nobody_waits_for_ever(run: Backend, kind: str) -> None:
    async def test() -> None:
        runtime = new_runtime()
        got: list[Any] = []

        async def waits() -> None:
            got.append(await runtime.settled("a"))

        async with anyio.create_task_group() as others:
            if kind == "inbox":
                await runtime.submit(Input("user", "text", id="a"))
                others.start_soon(waits)
                await anyio.wait_all_tasks_blocked()
                await runtime.aclose()
            else:
                async with runtime.open_generation(PROMPT, context=ListContext()):
                    await submit(runtime, "a")
                    others.start_soon(waits)
                    await anyio.wait_all_tasks_blocked()
                    await runtime.aclose()
        assert [(r["disposition"], r["reason"]) for r in got] == [("held", "runtime_closed")]

    run(test)


# ------------------------------------------------------------------------- identities, again


async def fills_up(runtime: LiveRuntime) -> None:
    number = 0
    while len(runtime.receipts()) < 5:
        await runtime.submit(Input("user", "fill", id=f"fill {number}"))
        number += 1


@pytest.mark.promise("admission.2", "I10", "I15", "admission.7.never_evicted")
@pytest.mark.parametrize("when", ["queued", "ended", "closed", "full"])
def test_the_same_id_again_gets_the_same_identitys_receipt_whatever_has_happened(
    run: Backend, when: str
) -> None:
    from midcourse import Limits

    async def test() -> None:
        runtime, context = new_runtime(limits=Limits(identities=5)), MemoryContext()
        given = Input("steer", "the same", id="a", target_generation_id="g1")
        async with runtime.open_generation(PROMPT, context=context) as generation:
            first = await runtime.submit(given)
            assert await runtime.submit_steering(given, "g1") == first
            if when == "queued":
                assert await runtime.submit_steering(Input("steer", "the same", id="a"), "g1") == (
                    first
                )
            await finish_at_once(generation)
        if when == "closed":
            await runtime.aclose()
        elif when == "full":
            await fills_up(runtime)
        before = types(runtime)
        again = await runtime.submit_steering(Input("steer", "the same", id="a"), "g1")
        assert again == {
            "accepted": True,
            "inputId": "a",
            "generationId": "g1",
            "disposition": "applied",
        }
        for changed in (
            Input("steer", "another text", id="a", target_generation_id="g1"),
            Input("steer", "the same", id="a"),
            Input("user", "the same", id="a"),
            Input("service", "the same", id="a", source="elsewhere"),
            Input("steer", "the same", id="a", target_generation_id="g2"),
            Input("steer", "the same", id="a", target_generation_id="g1", attachments=[{}]),
        ):
            with pytest.raises(IdentityConflict) as caught:
                await runtime.submit(changed)
            assert caught.value.input_id == "a"
        assert types(runtime) == before
        assert runtime.receipt("a") == again
        assert order_of(context) == ["prompt", "a"]

    run(test)


@pytest.mark.promise("admission.7.initial", "refusal.identity_conflict")
def test_the_id_of_an_initial_input_is_not_free_while_its_generation_is_active(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            with pytest.raises(IdentityConflict) as caught:
                await runtime.submit(Input("user", "the prompt", id="prompt"))
            assert caught.value.active_generation_id == generation.id
            await finish_at_once(generation)
        assert runtime.receipts() == []

    run(test)


@pytest.mark.promise("admission.2.copied", "word.input")
def test_what_a_host_does_to_its_objects_after_submitting_changes_nothing(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), MemoryContext(attachment_kinds=["image"])
        image = {"type": "image", "size": [1, 2]}
        attachments = [image]
        async with runtime.open_generation(PROMPT, context=context) as generation:
            given = Input("steer", "", id="a", attachments=attachments)
            await runtime.submit_steering(given, generation.id)
            image["size"] = "changed"
            attachments.append({"type": "image"})
            await finish_at_once(generation)
        assert context.messages[1]["content"] == [{"type": "image", "size": [1, 2]}]

    run(test)


@pytest.mark.promise("word.disposition", "disposition.queued", "I15")
def test_the_receipt_follows_the_input_from_queued_to_its_end(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            receipt = await runtime.submit_steering(steer("a"), generation.id)
            assert receipt["disposition"] == "queued"
            assert context.begun == []
            await finish_at_once(generation)
        assert disposition(runtime, "a") == ("applied", None)

    run(test)


@pytest.mark.promise("settled.waits", "event.never_slows")
def test_what_happens_between_a_look_and_the_wait_behind_it_is_not_missed(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        looks = iter([False, True])  # as another thread would make it, in between
        with anyio.fail_after(1):
            await runtime._until(lambda: next(looks), runtime._waiters)
        assert runtime._waiters == set()

    run(test)


@pytest.mark.promise("library.memory_context", "write.raised")
def test_the_embedded_context_knows_what_it_holds(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        context = MemoryContext([{"role": "system", "content": "be brief"}])
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, "a")
            await work(generation)
        assert order_of(context) == ["be brief", "prompt", "a"]
        assert await context.confirm("a") is True
        assert await context.confirm("b") is False
        assert context.attachment_kinds == frozenset()

    run(test)
