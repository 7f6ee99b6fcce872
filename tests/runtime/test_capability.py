"""The capability `live.steering`: what a host sees of it, and when."""

from __future__ import annotations

from typing import Any

import pytest

from midcourse import (
    Input,
    LiveRuntime,
    MemoryContext,
    NoActiveGeneration,
    RuntimeClosed,
    SteeringUnavailable,
)
from tests.engine.scene import PROMPT, finish_at_once, new_runtime, steer, types, work
from tests.support.backends import Backend


@pytest.mark.promise(
    "capability.view",
    "capability.version",
    "capability.request_boundary",
    "capability.not_cancellable",
    "capability.no_provider_native",
    "library.anywhere",
)
def test_the_capability_says_these_four_things_and_no_other() -> None:
    runtime = LiveRuntime()
    assert dict(runtime.capability) == {
        "version": 1,
        "mode": "request_boundary",
        "cancellable": False,
        "submit": runtime.submit_steering,
    }
    assert type(runtime.capability["mode"]) is str


@pytest.mark.promise("capability.view", "capability.not_cancellable")
def test_the_capability_is_read_only() -> None:
    capability: Any = LiveRuntime().capability
    with pytest.raises(TypeError):
        capability["cancellable"] = True
    with pytest.raises(TypeError):
        del capability["submit"]


@pytest.mark.promise("capability.not_cancellable", "capability.no_provider_native")
def test_nothing_of_a_runtime_replaces_retracts_or_edits() -> None:
    names = {name for name in dir(LiveRuntime) if not name.startswith("_")}
    assert names == {
        "aclose",
        "capability",
        "closed",
        "events",
        "from_thread",
        "generation",
        "input",
        "open_generation",
        "pending",
        "receipt",
        "receipts",
        "serve",
        "session_id",
        "settled",
        "stop",
        "submit",
        "submit_steering",
        "subscribe",
    }


@pytest.mark.promise("capability.submit", "capability.generation", "word.anchored_steer")
def test_the_capabilitys_submit_steers_the_active_generation(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(), MemoryContext()
        submit: Any = runtime.capability["submit"]
        async with runtime.open_generation(PROMPT, context=context) as generation:
            assert runtime.generation is not None
            receipt = await submit(steer("a"), runtime.generation["id"])
            assert receipt == {
                "accepted": True,
                "inputId": "a",
                "generationId": "g1",
                "disposition": "queued",
            }
            await finish_at_once(generation)
        assert runtime.generation is None
        with pytest.raises(NoActiveGeneration):
            await submit(steer("b"), generation.id)

    run(test)


@pytest.mark.promise("capability.generation")
def test_the_active_generation_is_shown_read_only(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        async with runtime.open_generation(PROMPT, context=MemoryContext()) as generation:
            shown: Any = runtime.generation
            assert shown == {"id": generation.id, "initial_input_id": "prompt"}
            with pytest.raises(TypeError):
                shown["id"] = "other"
            await finish_at_once(generation)

    run(test)


@pytest.mark.promise("capability.unavailable_closed", "refusal.runtime_closed", "admission.3")
def test_a_view_taken_before_shows_that_the_runtime_was_closed(run: Backend) -> None:
    async def test() -> None:
        runtime = new_runtime()
        view: Any = runtime.capability
        await runtime.aclose()
        assert view["mode"] == "unavailable"
        assert type(view["mode"]) is str
        assert runtime.closed
        with pytest.raises(RuntimeClosed):
            await view["submit"](steer("a"), "g1")
        assert runtime.events() == []

    run(test)


@pytest.mark.promise(
    "capability.unavailable_declared", "refusal.unavailable", "admission.4", "admission.order"
)
def test_a_mode_that_honours_no_anchors_refuses_before_admission(run: Backend) -> None:
    async def test() -> None:
        runtime, context = new_runtime(mode="unavailable"), MemoryContext()
        submit: Any = runtime.capability["submit"]
        assert runtime.capability["mode"] == "unavailable"
        with pytest.raises(SteeringUnavailable):
            await submit(steer("a"), "g1")
        async with runtime.open_generation(PROMPT, context=context) as generation:
            with pytest.raises(SteeringUnavailable) as caught:
                await submit(steer("a"), generation.id)
            assert caught.value.active_generation_id == generation.id
            before = types(runtime)
            await runtime.submit(Input("steer", "an ordinary one still works", id="b"))
            assert types(runtime) == [*before, "input.accepted", "input.queued"]
            await work(generation)
        assert runtime.receipt("a") is None
        assert [m["content"] for m in context.messages] == [
            "the prompt",
            "an ordinary one still works",
        ]

    run(test)


@pytest.mark.promise("capability.unavailable_declared", "library.misuse")
def test_a_mode_that_there_is_not_is_refused_when_the_runtime_is_made() -> None:
    strange: Any = "provider_native"
    with pytest.raises(ValueError, match="provider_native"):
        LiveRuntime(mode=strange)


@pytest.mark.promise("library.anywhere", "word.session")
def test_a_runtime_made_before_any_loop_runs_works_in_one(run: Backend) -> None:
    runtime, context = new_runtime(), MemoryContext()

    async def test() -> None:
        async with runtime, runtime.open_generation(PROMPT, context=context) as generation:
            await finish_at_once(generation)

    run(test)
    assert runtime.closed
    assert runtime.session_id == "session"


@pytest.mark.promise("word.session", "word.generation", "library.deterministic")
def test_ids_that_nobody_gives_are_unique() -> None:
    assert LiveRuntime().session_id != LiveRuntime().session_id
    assert Input("user", "x").id != Input("user", "x").id


@pytest.mark.promise("word.generation", "library.misuse", "library.deterministic")
@pytest.mark.parametrize("made", ["", "x" * 1000, None, 7])
def test_a_maker_of_ids_that_makes_none_opens_nothing(run: Backend, made: Any) -> None:
    async def test() -> None:
        runtime = new_runtime(new_id=lambda: made)
        with pytest.raises(ValueError, match="new_id"):
            await runtime.open_generation(PROMPT, context=MemoryContext()).__aenter__()
        assert runtime.generation is None
        assert runtime.events() == []

    run(test)
