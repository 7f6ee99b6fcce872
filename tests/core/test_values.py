"""The values that a host makes: inputs and limits."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc
from typing import Any

import pytest

from midcourse import ContextUnchanged, Input, InvalidInput, Limits
from midcourse._core.values import fresh_copy

from .sessions import boundary, new_session, opened, steer

WHOLE = Input(
    "steer", "go left", id="a", target_generation_id="g", attachments=({"type": "image", "n": [1]},)
)


@pytest.mark.promise("word.input", "library.values")
def test_an_input_is_frozen_and_gets_a_fresh_id_where_none_is_given() -> None:
    one, other = Input("user", "x"), Input("user", "x")
    assert one.id != other.id
    assert len(one.id) == 32
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.text = "y"  # type: ignore[misc]
    assert (one.source, one.target_generation_id, one.attachments) == ("user", None, ())


@pytest.mark.promise("library.values")
def test_an_input_goes_over_a_wire_and_comes_back_the_same() -> None:
    wire = WHOLE.to_json()
    assert wire == {
        "kind": "steer",
        "text": "go left",
        "id": "a",
        "source": "user",
        "target_generation_id": "g",
        "attachments": [{"type": "image", "n": [1]}],
    }
    assert Input.from_json(json.loads(json.dumps(wire))) == WHOLE
    assert Input.from_json({"kind": "stop"}).kind == "stop"


@pytest.mark.promise("library.values", "admission.2.copied")
def test_the_json_of_an_input_is_a_fresh_copy() -> None:
    WHOLE.to_json()["attachments"][0]["n"].append(2)
    assert WHOLE.attachments[0] == {"type": "image", "n": [1]}
    value: dict[str, Any] = {"a": [1, {"b": None}]}
    copy = fresh_copy(value)
    assert copy == value
    assert copy["a"][1] is not value["a"][1]


@pytest.mark.promise("admission.1.whole", "refusal.invalid_input")
@pytest.mark.parametrize(
    ("wire", "why", "told"),
    [
        (["steer"], "an input is a mapping, not list", None),
        ("steer", "an input is a mapping, not str", None),
        (None, "an input is a mapping, not NoneType", None),
        ({"id": "a", "text": "x"}, "an input needs a kind", "a"),
        ({"id": 7}, "an input needs a kind", None),
        ({"kind": "steer", "txt": "x", "id": "a"}, "an input has no txt", "a"),
        ({"kind": "steer", "z": 1, 5: 2}, "an input has no 5, z", None),
    ],
)
def test_a_mapping_that_is_no_input_is_refused_and_no_key_is_dropped(
    wire: Any, why: str, told: str | None
) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        Input.from_json(wire)
    assert caught.value.input_id == told


@pytest.mark.promise("word.disposition")
def test_context_unchanged_is_a_plain_exception_for_contexts_to_raise() -> None:
    assert ContextUnchanged.__bases__ == (Exception,)


# ---------------------------------------------------------------------------------- limits

DEFAULTS: dict[str, float] = {
    "identities": 2000,
    "pending": 128,
    "text_chars": 16_000,
    "id_chars": 128,
    "attachments": 16,
    "attachment_bytes": 8_000_000,
    "write_grace": 5.0,
    "confirm_timeout": 5.0,
    "event_history": 10_000,
}
MAY_BE_ZERO = {"write_grace", "confirm_timeout", "attachments"}


@pytest.mark.promise("limits.defaults", "limits.write_grace", "limits.confirm_timeout")
def test_the_default_limits_are_the_numbers_of_the_contract() -> None:
    assert dataclasses.asdict(Limits()) == DEFAULTS
    with pytest.raises(dataclasses.FrozenInstanceError):
        Limits().pending = 1  # type: ignore[misc]


@pytest.mark.promise("limits.checked")
@pytest.mark.parametrize("name", DEFAULTS)
def test_a_limit_below_its_least_is_refused_and_its_least_is_taken(name: str) -> None:
    least = 0 if name in MAY_BE_ZERO else 1
    bounds: dict[str, Any] = {name: least}
    assert getattr(Limits(**bounds), name) == least
    for wrong in (least - 1, float("nan")):
        bounds = {name: wrong}
        with pytest.raises(ValueError, match=rf"Limits\.{name} is at least {least}, not"):
            Limits(**bounds)


@pytest.mark.promise("limits.memory", "content.dropped", "F40")
def test_2_000_applied_identities_of_16_000_characters_are_small() -> None:
    session = new_session(Limits(event_history=1))
    state = opened(session, "g")
    tracemalloc.start()
    try:
        for number in range(2000):
            steer(session, str(number), f"{number:05}" + "x" * 15_995)
            if number % 100 == 99:
                boundary(state)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(list(session.records())) == 2000
    # Their texts are 32 million characters; what is left is a few hundred bytes each.
    assert kept < 2000 * 1000


@pytest.mark.promise("limits.checked")
@pytest.mark.parametrize("value", [1.5, True, "128", None])
def test_a_bound_that_counts_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ValueError, match="whole number"):
        Limits(pending=value)
