"""The errors: one tree, one class a code, facts as fields."""

from __future__ import annotations

import json

import pytest

import midcourse
from midcourse import (
    InternalError,
    MidcourseError,
    Misuse,
    NoRoom,
    RefusalCode,
    SteeringRefused,
    TooLate,
)
from midcourse._core.errors import REFUSALS

# Each code of the contract, its class, and what a handler may catch instead.
CODES: dict[str, tuple[str, type[SteeringRefused]]] = {
    "invalid_input": ("InvalidInput", SteeringRefused),
    "identity_conflict": ("IdentityConflict", SteeringRefused),
    "runtime_closed": ("RuntimeClosed", TooLate),
    "unavailable": ("SteeringUnavailable", SteeringRefused),
    "no_active_generation": ("NoActiveGeneration", TooLate),
    "generation_mismatch": ("GenerationMismatch", TooLate),
    "admission_closed": ("AdmissionClosed", TooLate),
    "identities_exhausted": ("IdentitiesExhausted", NoRoom),
    "queue_full": ("QueueFull", NoRoom),
}


@pytest.mark.promise("refusal.closed_enum", "library.errors", "F36")
def test_the_codes_are_those_of_the_contract_and_each_has_one_class() -> None:
    assert [code.value for code in RefusalCode] == list(CODES)
    assert {code.value: cls.__name__ for code, cls in REFUSALS.items()} == {
        code: name for code, (name, _) in CODES.items()
    }
    for code, cls in REFUSALS.items():
        assert cls.code is code
        assert isinstance(code, str)


@pytest.mark.promise("library.errors", "refusal.closed_enum")
@pytest.mark.parametrize("code", CODES)
def test_each_refusal_stands_where_a_handler_looks_for_it(code: str) -> None:
    name, parent = CODES[code]
    cls = getattr(midcourse, name)
    assert cls.__bases__ == (parent,)
    assert issubclass(parent, SteeringRefused)


@pytest.mark.promise("library.errors", "library.misuse")
def test_everything_is_a_midcourse_error_and_misuse_is_a_runtime_error_too() -> None:
    for branch in (SteeringRefused, Misuse, InternalError):
        assert issubclass(branch, MidcourseError)
    assert issubclass(Misuse, RuntimeError)
    names = {"GenerationActive", "GenerationBusy", "GenerationOver", "GenerationUnfinished"}
    assert {cls.__name__ for cls in Misuse.__subclasses__()} == names
    assert set(MidcourseError.__subclasses__()) == {SteeringRefused, Misuse, InternalError}


@pytest.mark.promise("refusal.fields", "refusal.json", "library.values")
@pytest.mark.parametrize("code", CODES)
def test_a_refusal_carries_its_facts_and_turns_into_json(code: str) -> None:
    cls = REFUSALS[RefusalCode(code)]
    refused = cls(
        "not now",
        input_id="a",
        generation_id="g",
        active_generation_id="h",
    )
    assert refused.code == code
    assert (refused.input_id, refused.generation_id, refused.active_generation_id) == (
        "a",
        "g",
        "h",
    )
    wire = json.loads(json.dumps(refused.to_json()))
    assert wire == {
        "accepted": False,
        "code": code,
        "inputId": "a",
        "generationId": "g",
        "activeGenerationId": "h",
        "message": "not now",
    }


@pytest.mark.promise("refusal.fields", "refusal.json")
def test_facts_that_a_refusal_does_not_have_are_none() -> None:
    refused = midcourse.QueueFull("full")
    assert (refused.input_id, refused.generation_id, refused.active_generation_id) == (
        None,
        None,
        None,
    )
    assert refused.to_json()["inputId"] is None
