"""Refusals, end to end: their codes, their fields, their order, and that nothing is recorded."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from midcourse import (
    AdmissionClosed,
    Generation,
    GenerationMismatch,
    IdentitiesExhausted,
    Input,
    InvalidInput,
    Limits,
    MemoryContext,
    NoActiveGeneration,
    QueueFull,
    RefusalCode,
    RuntimeClosed,
    SteeringRefused,
)
from tests.engine.scene import (
    PROMPT,
    disposition,
    finish_at_once,
    new_runtime,
    steer,
    submit,
    types,
    work,
)
from tests.support.backends import Backend
from tests.support.contexts import ListContext


@pytest.mark.promise(
    "refusal.no_active_generation",
    "admission.5.none",
    "refusal.fields",
    "admission.refused_nothing",
)
@pytest.mark.parametrize("anchor", ["g1", None])
def test_without_a_generation_a_steer_is_refused(run: Backend, anchor: str | None) -> None:
    async def test() -> None:
        runtime = new_runtime()
        with pytest.raises(NoActiveGeneration) as caught:
            await runtime.submit_steering(steer("a"), anchor)
        assert caught.value.to_json() == {
            "accepted": False,
            "code": "no_active_generation",
            "inputId": "a",
            "generationId": anchor,
            "activeGenerationId": None,
            "message": str(caught.value),
        }
        assert json.loads(json.dumps(caught.value.to_json())) == caught.value.to_json()
        assert runtime.receipts() == []
        assert runtime.events() == []
        assert runtime.generation is None

    run(test)


@pytest.mark.promise("admission.5.none", "refusal.fields", "admission.9.no_inbox")
def test_a_steering_call_without_an_anchor_is_refused_even_while_one_is_active(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            for anchor in (None, ""):
                with pytest.raises(SteeringRefused) as caught:
                    await runtime.submit_steering(steer("a"), anchor)
                assert caught.value.code == "no_active_generation"
                assert caught.value.active_generation_id == "g1"
            await finish_at_once(generation)
        assert runtime.receipts() == []

    run(test)


@pytest.mark.promise("refusal.generation_mismatch", "admission.5.mismatch", "I6", "refusal.json")
def test_while_another_generation_is_active_a_steer_is_refused_with_its_id(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as first:
            await finish_at_once(first)
        async with runtime.open_generation(Input("user", "next"), context=context) as second:
            with pytest.raises(GenerationMismatch) as caught:
                await runtime.submit_steering(steer("late"), first.id)
            assert (caught.value.generation_id, caught.value.active_generation_id) == ("g1", "g2")
            assert caught.value.input_id == "late"
            await finish_at_once(second)
        assert "late" not in context.ids
        assert runtime.receipt("late") is None

    run(test)


@pytest.mark.promise("refusal.admission_closed", "admission.5.closed", "I8")
@pytest.mark.parametrize("how", ["stop", "cancel", "fail"])
def test_while_its_generation_ends_a_steer_is_refused(run: Backend, how: str) -> None:
    async def test() -> None:
        runtime = new_runtime()
        codes: list[SteeringRefused] = []

        async def slow(message: dict[str, Any]) -> None:
            writing.set()
            with anyio.CancelScope(shield=True):
                await gate.wait()
            raise ValueError

        async def confirm(input_id: str) -> bool:
            if how == "fail":
                await person()
            return False

        async def person() -> None:
            with pytest.raises(AdmissionClosed) as caught:
                await runtime.submit_steering(steer("late"), "g1")
            codes.append(caught.value)

        writing, gate = anyio.Event(), anyio.Event()
        context: Any = ListContext()
        context.add_message, context.confirm = slow, confirm
        async with anyio.create_task_group() as others:

            async def ends() -> None:
                await writing.wait()
                if how != "fail":
                    runtime.stop() if how == "stop" else scope.cancel()
                    await anyio.wait_all_tasks_blocked()
                    await person()
                gate.set()

            others.start_soon(ends)
            with anyio.CancelScope() as scope:
                async with runtime.open_generation(PROMPT, context=context) as generation:
                    with pytest.raises((ValueError, anyio.get_cancelled_exc_class())):
                        await generation.boundary()
        assert [code.active_generation_id for code in codes] == ["g1"]
        assert runtime.receipts() == []

    run(test)


@pytest.mark.promise("refusal.runtime_closed", "admission.3", "held.runtime_closed")
def test_a_closed_runtime_refuses_every_new_input(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        await runtime.aclose()
        for given in (Input("user", "text"), Input("steer", "text"), steer("a")):
            with pytest.raises(RuntimeClosed) as caught:
                await runtime.submit(given)
            assert caught.value.code == "runtime_closed"
        with pytest.raises(RuntimeClosed):
            await runtime.submit_steering(steer("a"), "g1")
        assert runtime.receipts() == []

    run(test)


MALFORMED = [
    Input("shout", "text"),
    Input("user", ""),
    Input("user", "x" * 16_001),
    Input("user", "text", id=""),
    Input("user", "text", id="x" * 129),
    Input("user", "text", source="elsewhere"),
    Input("service", "text"),
    Input("user", "text", target_generation_id="g1"),
    Input("steer", "text", attachments=[object()]),
    Input("steer", "text", attachments=[{"type": "image"}] * 17),
    Input("steer", "text", attachments=[float("nan")]),
    Input("user", "lone \ud800 surrogate"),
]


@pytest.mark.promise("refusal.invalid_input", "admission.1", "admission.order", "admission.1.whole")
@pytest.mark.parametrize("closed", [False, True])
def test_a_malformed_input_is_refused_before_anything_else_is_looked_at(
    run: Backend, closed: bool
) -> None:
    async def test() -> None:
        runtime = new_runtime()
        if closed:
            await runtime.aclose()
        for given in MALFORMED:
            with pytest.raises(InvalidInput) as caught:
                await runtime.submit(given)
            assert caught.value.code == "invalid_input"
            json.dumps(caught.value.to_json())
        strange: Any = {"kind": "user", "text": "no Input"}
        with pytest.raises(InvalidInput):
            await runtime.submit(strange)
        with pytest.raises(InvalidInput):
            await runtime.submit_steering(Input("user", "text"), "g1")
        anchored = Input("steer", "text", target_generation_id="g2")
        with pytest.raises(InvalidInput):
            await runtime.submit_steering(anchored, "g1")
        assert runtime.events() == []
        assert runtime.receipts() == []

    run(test)


@pytest.mark.promise("admission.6", "refusal.invalid_input", "admission.1.whole")
def test_an_attachment_that_the_context_does_not_take_is_refused(run: Backend) -> None:
    async def test() -> None:
        contexts: list[tuple[ListContext | MemoryContext, bool]] = [
            (ListContext(), False),
            (MemoryContext(), False),
            (MemoryContext(attachment_kinds=["image"]), True),
            (MemoryContext(attachment_kinds=["audio"]), False),
        ]
        for context, taken in contexts:
            runtime = new_runtime()
            async with runtime.open_generation(PROMPT, context=context) as generation:
                given = Input("steer", "look", id="a", attachments=[{"type": "image"}])
                if taken:
                    await runtime.submit_steering(given, generation.id)
                else:
                    with pytest.raises(InvalidInput, match="image"):
                        await runtime.submit_steering(given, generation.id)
                await work(generation)
            assert (runtime.receipt("a") is not None) == taken

    run(test)


@pytest.mark.promise("refusal.closed_enum", "refusal.fields")
def test_every_code_is_a_plain_string_of_the_contract() -> None:
    assert {str(code) for code in RefusalCode} == {
        "invalid_input",
        "identity_conflict",
        "runtime_closed",
        "unavailable",
        "no_active_generation",
        "generation_mismatch",
        "admission_closed",
        "identities_exhausted",
        "queue_full",
    }


# ------------------------------------------------------------------------------ the limits


@pytest.mark.promise("refusal.queue_full", "admission.8", "limits.pending")
def test_the_129th_input_of_the_boundary_queue_is_refused(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            await submit(runtime, *(f"{number}" for number in range(128)))
            before = types(runtime)
            with pytest.raises(QueueFull) as caught:
                await runtime.submit_steering(steer("too many"), generation.id)
            assert caught.value.active_generation_id == "g1"
            with pytest.raises(QueueFull):
                await runtime.submit(Input("steer", "an ordinary one"))
            assert types(runtime) == before
            # An id that is accepted already is no new input, and a user input waits elsewhere.
            assert (await runtime.submit_steering(steer("5"), "g1"))["disposition"] == "queued"
            await runtime.submit(Input("user", "for a later turn"))
            assert await generation.boundary()
            await submit(runtime, "room again")
            await generation.boundary()
            await generation.finish("done")
        assert context.ids == ["prompt", *(f"{number}" for number in range(128)), "room again"]

    run(test)


@pytest.mark.promise("refusal.queue_full", "admission.8", "limits.pending", "word.inbox")
def test_the_129th_input_of_the_inbox_is_refused(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        for number in range(128):
            await runtime.submit(Input("user", "text", id=f"{number}"))
        with pytest.raises(QueueFull):
            await runtime.submit(Input("user", "text", id="too many"))
        assert runtime.receipt("too many") is None
        # The boundary queue has room of its own.
        async with runtime.open_generation(PROMPT, context=ListContext()) as generation:
            await submit(runtime, "a")
            await work(generation)
        assert disposition(runtime, "a") == ("applied", None)

    run(test)


@pytest.mark.promise(
    "refusal.identities_exhausted", "admission.7", "admission.7.never_evicted", "I11"
)
def test_the_2001st_identity_is_refused_and_none_is_evicted(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        async with runtime.open_generation(PROMPT, context=context) as generation:
            for number in range(2000):
                await submit(runtime, f"{number}")
                if number % 100 == 99:
                    assert await generation.boundary()
            with pytest.raises(IdentitiesExhausted) as caught:
                await runtime.submit_steering(steer("too many"), generation.id)
            assert caught.value.code == "identities_exhausted"
            assert "new runtime" in str(caught.value)
            with pytest.raises(IdentitiesExhausted):
                await runtime.submit(Input("user", "text"))
            first = await runtime.submit_steering(steer("0"), generation.id)
            assert first["disposition"] == "applied"
            await generation.finish("done")
        assert len(runtime.receipts()) == 2000
        assert context.ids == ["prompt", *(f"{number}" for number in range(2000))]
        # A host may still open generations and stop: neither takes an identity.
        async with runtime.open_generation(Input("user", "next"), context=context) as generation:
            await runtime.submit(Input("stop"))
            await generation.boundary()
        assert generation.reason == "stopped"

    run(test)


@pytest.mark.promise("admission.order", "admission.7", "admission.8")
def test_identities_are_looked_at_before_the_room_in_the_queue(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime(limits=Limits(identities=2, pending=2))
        async with runtime.open_generation(PROMPT, context=ListContext()):
            await submit(runtime, "a", "b")
            with pytest.raises(IdentitiesExhausted):
                await runtime.submit_steering(steer("c"), "g1")
            with pytest.raises(GenerationMismatch):
                await runtime.submit_steering(steer("c"), "g2")
            image = Input("steer", "", id="c", attachments=[{"type": "image"}])
            with pytest.raises(InvalidInput):
                await runtime.submit_steering(image, "g1")
            runtime.stop()

    run(test)


@pytest.mark.promise("admission.opens", "admission.closes", "I8")
def test_admission_is_open_when_the_opening_is_seen_and_closed_when_the_end_is(
    run: Backend,
) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), ListContext()
        verdicts: list[str] = []

        async def watcher() -> None:
            with runtime.subscribe() as events:
                async for event in events:
                    name = getattr(event, "type", "")
                    if name.startswith("generation."):
                        try:
                            await runtime.submit_steering(steer(name), "g1")
                        except SteeringRefused as refusal:
                            verdicts.append(f"{name}: {refusal.code.value}")
                        else:
                            verdicts.append(f"{name}: accepted")
                    if name == "generation.finished":
                        return

        async def slow(generation: Generation) -> None:
            await anyio.sleep(1)

        async with anyio.create_task_group() as others:
            others.start_soon(watcher)
            await anyio.wait_all_tasks_blocked()
            async with runtime.open_generation(
                PROMPT, context=context, checkpoint=slow
            ) as generation:
                await anyio.sleep(1)
                await work(generation)
        assert verdicts == [
            "generation.started: accepted",
            "generation.finished: no_active_generation",
        ]
        assert context.ids == ["prompt", "generation.started"]

    run(test)
