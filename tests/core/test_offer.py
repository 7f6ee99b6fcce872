"""The first step of admission: what is malformed, what is the same, what is copied."""

from __future__ import annotations

import json
from collections import OrderedDict
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse import IdentityConflict, Input, InvalidInput, Limits, RefusalCode
from midcourse._core.record import Record
from midcourse._core.tables import Delivery

from .sessions import LIMITS, facts, new_session, offer, opened, submit

STEER = Input("steer", "go left", id="a")


class Text(str):
    """A subclass of str, as frameworks make them."""

    __slots__ = ()


class Number(IntEnum):
    ONE = 1


class Word(StrEnum):
    LEFT = "left"


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def attached(*values: Any) -> Input:
    return Input("steer", "look", id="a", attachments=values)


# ------------------------------------------------------------------------------ malformed


@pytest.mark.promise("admission.1.kind", "refusal.invalid_input")
@pytest.mark.parametrize("kind", ["", "steering", "User", "STEER", None, 1, b"steer", ["steer"]])
def test_an_unknown_kind_is_malformed(kind: Any) -> None:
    with pytest.raises(InvalidInput, match="kind is one of service, steer, stop, user"):
        offer(Input(kind, "go left", id="a"))


@pytest.mark.promise("admission.1.kind", "word.ordinary_input", "word.input")
@pytest.mark.parametrize(
    "wanted",
    [
        Input("user", "x", id="a"),
        Input("steer", "x", id="a"),
        Input("service", "x", id="a", source="ci"),
        Input("stop", id="a"),
    ],
)
def test_every_kind_of_the_contract_is_taken_as_an_ordinary_input(wanted: Input) -> None:
    taken = offer(wanted)
    assert (taken.input, taken.anchor, taken.anchored) == (wanted, None, False)


@pytest.mark.promise("admission.1.anchored_steer")
@pytest.mark.parametrize(
    "wanted", [Input("user", "x"), Input("service", "x", source="ci"), Input("stop")]
)
def test_only_a_steer_can_be_anchored(wanted: Input) -> None:
    with pytest.raises(InvalidInput, match="only a steer can be anchored"):
        offer(wanted, "g")
    with pytest.raises(InvalidInput, match="only a steer can be anchored"):
        offer(wanted, anchored=True)
    inside = Input(wanted.kind, wanted.text, source=wanted.source, target_generation_id="g", id="a")
    with pytest.raises(InvalidInput, match="only a steer can be anchored"):
        offer(inside)


@pytest.mark.promise("admission.1.anchors", "word.anchored_steer")
@pytest.mark.parametrize(("inside", "call"), [("g", None), (None, "g"), ("g", "g")])
def test_a_steer_is_anchored_by_the_input_by_the_call_or_by_both(
    inside: str | None, call: str | None
) -> None:
    taken = offer(Input("steer", "x", id="a", target_generation_id=inside), call)
    assert (taken.anchor, taken.anchored) == ("g", True)


@pytest.mark.promise("admission.1.anchors")
@pytest.mark.parametrize(("inside", "call"), [("g", "h"), ("", "g"), ("g", "")])
def test_two_different_anchors_are_malformed(inside: str, call: str) -> None:
    with pytest.raises(InvalidInput, match=r"the input is anchored to .*, the call to"):
        offer(Input("steer", "x", target_generation_id=inside), call)


@pytest.mark.promise("admission.1.anchors", "refusal.fields")
@pytest.mark.parametrize("anchor", [1, b"g", ["g"], "\ud800"])
def test_an_anchor_is_a_text(anchor: Any) -> None:
    for malformed, call in (
        (Input("steer", "x", id="a", target_generation_id=anchor), None),
        (Input("steer", "x", id="a"), anchor),
    ):
        with pytest.raises(InvalidInput, match="an anchor is the id of a generation") as caught:
            offer(malformed, call)
        assert caught.value.generation_id == (anchor if isinstance(anchor, str) else None)


@pytest.mark.promise("admission.1.anchors")
def test_a_call_for_anchored_steers_without_an_anchor_is_still_one() -> None:
    taken = offer(Input("steer", "x"), anchored=True)
    assert (taken.anchor, taken.anchored) == (None, True)


@pytest.mark.promise("admission.1.id", "refusal.fields")
@pytest.mark.parametrize(
    ("wrong", "told"),
    [("", ""), ("x" * 129, "x" * 129), (None, None), (7, None), (b"a", None), ("\ud800", None)],
)
def test_an_id_has_1_to_128_characters(wrong: Any, told: str | None) -> None:
    with pytest.raises(InvalidInput, match="an id has 1 to 128 characters") as caught:
        offer(Input("steer", "x", id=wrong), "g")
    assert (caught.value.input_id, caught.value.generation_id) == (told, "g")


@pytest.mark.promise("admission.1.text")
@pytest.mark.parametrize("text", [None, 7, b"go left", ["go left"], "\ud800"])
def test_a_text_is_a_string_of_unicode_characters(text: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^text is a string of Unicode characters$"):
        offer(Input("steer", text))


@pytest.mark.promise("admission.1.text", "F34")
@pytest.mark.parametrize("kind", ["user", "steer"])
def test_a_text_is_empty_only_beside_an_attachment(kind: str) -> None:
    with pytest.raises(InvalidInput, match=r"^an input without attachments needs a text$"):
        offer(Input(kind, ""))
    image = {"type": "image", "url": "data:,"}
    assert offer(Input(kind, "", attachments=[image])).input.attachments == (image,)


@pytest.mark.promise("ordinary.stop", "admission.7.stop")
def test_a_stop_needs_neither_text_nor_id() -> None:
    nameless: Any = None
    assert offer(Input("stop", id=nameless)).input == Input("stop", "", id="")
    assert offer(Input("stop", id="x" * 129)).input.kind == "stop"
    assert offer(Input("stop", "x" * 16_001)).input.kind == "stop"


@pytest.mark.promise("admission.1.source")
@pytest.mark.parametrize("source", ["user", "", "x" * 129, None, 7, "\ud800"])
def test_a_service_input_names_a_source_other_than_user(source: Any) -> None:
    with pytest.raises(InvalidInput, match="source"):
        offer(Input("service", "tests failed", source=source))


@pytest.mark.promise("admission.1.source")
@pytest.mark.parametrize("kind", ["user", "steer", "stop"])
@pytest.mark.parametrize("source", ["ci", "", None])
def test_any_other_input_has_no_source_of_its_own(kind: str, source: Any) -> None:
    with pytest.raises(InvalidInput, match="source"):
        offer(Input(kind, "x", source=source))


@pytest.mark.promise("admission.1.attachments")
@pytest.mark.parametrize("attachments", [None, "image", {"type": "image"}, 7, {1}, iter(())])
def test_attachments_are_a_list_or_a_tuple(attachments: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^attachments are a list or a tuple of JSON values$"):
        offer(Input("steer", "x", attachments=attachments))


@pytest.mark.promise("admission.1.attachments")
@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        (1, 2),
        {"a": (1,)},
        {1: "a"},
        {None: "a"},
        {True: "a"},
        {1: "a", "1": "b"},
        {("a",): 1},
        {1, 2},
        b"bytes",
        object(),
        "\ud800",
        {"\ud800": 1},
        10**5000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_attachment_is_a_json_value(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^an attachment is no JSON value(: \w+Error)?$"):
        offer(attached({"type": "data", "value": value}))


@pytest.mark.promise("admission.1.attachments", "admission.1.whole")
@pytest.mark.parametrize(
    "value", [None, True, 0, -1, 10**400, 0.1, -0.0, 1e300, "", "ä\u2028\U0001f600\0", [], {}, [[]]]
)
def test_every_json_value_is_taken_whole(value: Any) -> None:
    (taken,) = offer(attached({"value": value})).input.attachments
    assert repr(taken) == repr({"value": value})


@pytest.mark.promise("admission.1.attachments", "limits.attachment_bytes")
@pytest.mark.parametrize("value", [nested(101), nested(100_000), {"a": nested(100)}, circular()])
def test_an_attachment_is_nested_at_most_100_deep(value: Any) -> None:
    with pytest.raises(InvalidInput, match="attachments are nested more than 100 deep"):
        offer(attached(value))
    with pytest.raises(InvalidInput, match="attachments are nested more than 100 deep"):
        offer(attached(value, [1, {"a": 1}]))


@pytest.mark.promise("admission.1.attachments", "limits.attachment_bytes")
def test_a_small_value_that_stands_for_an_enormous_one_is_refused_at_once() -> None:
    value: list[Any] = ["x"]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(InvalidInput, match="attachments are of at most 10000 bytes"):
        offer(attached(value), limits=Limits(attachment_bytes=10_000))


@pytest.mark.promise("admission.1.attachments", "admission.9")
def test_an_attachment_that_is_accepted_can_be_written_from_any_depth_of_the_stack() -> None:
    def deeper(levels: int, record: Record) -> None:
        if levels:
            deeper(levels - 1, record)
        else:
            record.message()
            record.content()

    for value in (nested(100), {"a": nested(99)}):
        deeper(700, Record(offer(attached(value)), Delivery.NEW_TURN, "g"))


@pytest.mark.promise("admission.1")
@pytest.mark.parametrize("wrong", [None, "go left", {"kind": "steer", "text": "go left"}])
def test_what_is_no_input_is_malformed(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"a submission is a midcourse\.Input") as caught:
        offer(wrong)
    assert str(caught.value).endswith(f", not {type(wrong).__name__}")
    assert caught.value.code is RefusalCode.INVALID_INPUT
    assert caught.value.input_id is None


@pytest.mark.promise("library.logging", "refusal.invalid_input")
def test_a_refusal_does_not_repeat_the_content() -> None:
    secret = "the password"
    for wrong in (
        Input("steer", secret * 2000, id="a"),
        Input("steer", secret, id="a", source=""),
        Input("steer", "", id="a", attachments=[{secret: (1,)}]),
    ):
        with pytest.raises(InvalidInput) as caught:
            offer(wrong)
        assert secret not in str(caught.value)


# ------------------------------------------------------------------------------- sameness

ATTACHMENT = {"type": "image", "size": [1, 2], "alt": {"en": "left", "de": "links"}}
ORIGINAL = Input("steer", "go left", id="a", target_generation_id="g", attachments=[ATTACHMENT])

CHANGED = {
    "text": (Input("steer", "go left ", id="a", attachments=[ATTACHMENT]), "g"),
    "anchor": (Input("steer", "go left", id="a", attachments=[ATTACHMENT]), "h"),
    "no anchor": (Input("steer", "go left", id="a", attachments=[ATTACHMENT]), None),
    "kind": (Input("user", "go left", id="a", attachments=[ATTACHMENT]), None),
    "source": (
        Input("service", "go left", id="a", source="ci", attachments=[ATTACHMENT]),
        None,
    ),
    "fewer attachments": (Input("steer", "go left", id="a"), "g"),
    "more attachments": (
        Input("steer", "go left", id="a", attachments=[ATTACHMENT, ATTACHMENT]),
        "g",
    ),
    "order in a list": (
        Input("steer", "go left", id="a", attachments=[ATTACHMENT | {"size": [2, 1]}]),
        "g",
    ),
    "an int as a float": (
        Input("steer", "go left", id="a", attachments=[ATTACHMENT | {"size": [1.0, 2]}]),
        "g",
    ),
    "an int as a bool": (
        Input("steer", "go left", id="a", attachments=[ATTACHMENT | {"size": [True, 2]}]),
        "g",
    ),
    "an int as a text": (
        Input("steer", "go left", id="a", attachments=[ATTACHMENT | {"size": ["1", 2]}]),
        "g",
    ),
    "null for nothing": (
        Input("steer", "go left", id="a", attachments=[ATTACHMENT | {"more": None}]),
        "g",
    ),
}


@pytest.mark.promise("admission.2.sameness", "admission.2", "F17", "I10")
@pytest.mark.parametrize("what", CHANGED)
def test_any_change_under_an_accepted_id_is_refused_and_changes_nothing(what: str) -> None:
    session = new_session()
    opened(session, attachment_kinds=["image"])
    submit(session, ORIGINAL)
    before = facts(session)
    changed, anchor = CHANGED[what]
    with pytest.raises(IdentityConflict):
        submit(session, changed, anchor)
    assert facts(session) == before


@pytest.mark.promise("admission.2.sameness", "admission.2", "F17", "I10")
def test_equal_content_in_another_order_of_keys_is_the_same() -> None:
    turned = OrderedDict(reversed(list(ATTACHMENT.items())))
    turned["alt"] = {"de": "links", "en": "left"}
    again = Input("steer", "go left", id="a", attachments=(turned,))
    session = new_session()
    opened(session, attachment_kinds=["image"])
    record = submit(session, ORIGINAL)
    assert submit(session, again, "g") is record
    assert len(list(session.records())) == 1


@pytest.mark.promise("admission.2.sameness")
def test_subclasses_of_plain_types_are_the_same_as_what_they_stand_for() -> None:
    plain = Input(
        "steer", "left", id="a", target_generation_id="g", attachments=[{"n": 1, "w": "left"}]
    )
    fancy = Input(
        Text("steer"),
        Word.LEFT,
        id=Text("a"),
        source=Text("user"),
        target_generation_id=Text("g"),
        attachments=[OrderedDict({Text("w"): Word.LEFT, "n": Number.ONE})],
    )
    one, other = offer(plain, "g"), offer(fancy, Text("g"))
    assert one == other
    copy = other.input
    for text in (copy.kind, copy.text, copy.id, copy.source, copy.target_generation_id):
        assert type(text) is str
    assert type(other.anchor) is str
    (attachment,) = copy.attachments
    assert [type(value) for value in attachment.values()] == [int, str]


@pytest.mark.promise("admission.2.sameness")
def test_the_parts_of_an_input_do_not_run_into_each_other() -> None:
    inputs = [
        Input("steer", '","', id="a"),
        Input("steer", '"', id="a"),
        Input("steer", "\\", id="a"),
        Input("steer", "\\\\", id="a"),
        Input("steer", "a\u0308", id="a"),
        Input("steer", "\u00e4", id="a"),
        Input("steer", "x", id="a", attachments=["null"]),
        Input("steer", "x", id="a", attachments=[None]),
        Input("steer", "x", id="a", attachments=[[None]]),
    ]
    assert len({offer(each).digest for each in inputs}) == len(inputs)


@pytest.mark.promise("admission.2.sameness", "F18")
def test_the_id_is_no_part_of_the_content() -> None:
    one, other = offer(Input("steer", "x", id="a")), offer(Input("steer", "x", id="b"))
    assert one.digest == other.digest


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), inner)
    ),
    max_leaves=8,
)


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def reordered(value: Any) -> Any:
    """The same JSON value with the keys of every mapping in the opposite order."""
    if isinstance(value, dict):
        return {key: reordered(each) for key, each in reversed(list(value.items()))}
    return [reordered(each) for each in value] if isinstance(value, list) else value


@pytest.mark.promise("admission.2.sameness", "admission.1.whole")
@given(st.lists(JSON, min_size=1, max_size=3))
def test_a_json_value_is_taken_whole_and_is_itself_in_any_order_of_keys(values: list[Any]) -> None:
    taken = offer(attached(*values))
    assert canonical(list(taken.input.attachments)) == canonical(values)
    assert offer(attached(*reordered(values))).digest == taken.digest
    # Over a wire and back it is the same, too.
    assert offer(Input.from_json(json.loads(json.dumps(attached(*values).to_json())))) == taken


@pytest.mark.promise("admission.2.sameness")
@given(JSON, JSON)
def test_two_values_are_the_same_exactly_if_their_canonical_json_is(one: Any, other: Any) -> None:
    same = offer(attached(one)).digest == offer(attached(other)).digest
    assert same == (canonical(one) == canonical(other))


# ---------------------------------------------------------------------------------- copies


@pytest.mark.promise("admission.2.copied")
def test_what_the_host_does_to_its_objects_after_submission_changes_nothing() -> None:
    inner: dict[str, Any] = {"type": "image", "tags": ["new"]}
    attachments: list[Any] = [inner]
    taken = offer(Input("steer", "look", id="a", attachments=attachments))
    inner["tags"].append("changed")
    inner["more"] = 1
    attachments.append("another")
    assert taken.input.attachments == ({"type": "image", "tags": ["new"]},)


@pytest.mark.promise("limits.text_chars", "limits.id_chars", "admission.1.text", "admission.1.id")
@pytest.mark.parametrize("character", ["x", "ä", "\U0001f600"])
def test_a_bound_is_counted_in_characters(character: str) -> None:
    limits = Limits(text_chars=3, id_chars=2)
    offer(Input("steer", character * 3, id=character * 2), limits=limits)
    with pytest.raises(InvalidInput, match="a text has at most 3 characters, this one 4"):
        offer(Input("steer", character * 4, id="a"), limits=limits)
    with pytest.raises(InvalidInput, match="an id has 1 to 2 characters"):
        offer(Input("steer", "x", id=character * 3), limits=limits)


@pytest.mark.promise("limits.text_chars", "admission.1.text", "admission.1.whole")
def test_a_text_of_16_000_characters_is_taken_whole_and_one_more_is_refused() -> None:
    assert offer(Input("steer", "x" * 16_000)).input.text == "x" * 16_000
    with pytest.raises(InvalidInput, match="16000 characters, this one 16001"):
        offer(Input("steer", "x" * 16_001))


@pytest.mark.promise("limits.id_chars", "admission.1.id", "admission.1.source")
def test_an_id_and_a_source_of_128_characters_are_taken_and_of_one_too() -> None:
    for name in ("i", "i" * 128):
        assert offer(Input("steer", "x", id=name)).input.id == name
    for source in ("s", "s" * 128):
        assert offer(Input("service", "x", id="a", source=source)).input.source == source


@pytest.mark.promise("limits.attachments", "admission.1.attachments")
def test_16_attachments_are_taken_and_one_more_is_refused() -> None:
    assert len(offer(attached(*range(16))).input.attachments) == 16
    with pytest.raises(InvalidInput, match="at most 16 attachments"):
        offer(attached(*range(17)))
    with pytest.raises(InvalidInput, match="at most 0 attachments"):
        offer(attached(1), limits=Limits(attachments=0))


@pytest.mark.promise("limits.attachment_bytes", "admission.1.attachments")
def test_attachments_are_bounded_together_in_bytes_of_canonical_json() -> None:
    limits = Limits(attachment_bytes=len('["ä",{"a":1}]'.encode()))
    offer(attached("ä", {"a": 1}), limits=limits)
    with pytest.raises(InvalidInput, match="at most 14 bytes, these 15"):
        offer(attached("ä", {"a": 11}), limits=limits)


@pytest.mark.promise("limits.attachment_bytes", "admission.1.attachments")
def test_attachments_of_8_000_000_bytes_are_taken_and_one_more_is_refused() -> None:
    room = LIMITS.attachment_bytes - len('[""]')
    assert len(offer(attached("x" * room)).input.attachments[0]) == room
    with pytest.raises(InvalidInput, match="at most 8000000 bytes, these 8000001"):
        offer(attached("x" * (room + 1)))
