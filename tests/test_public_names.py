"""The public names: pinned, each in one place, and each documented."""

from __future__ import annotations

import enum
import inspect
from typing import Any

import pytest

import midcourse

NAMES = [
    "AdmissionClosed", "Batch", "Checkpoint", "Context", "ContextUnchanged", "Event",
    "FromThread", "Gap", "Generation", "GenerationActive", "GenerationBlock",
    "GenerationBusy", "GenerationMismatch", "GenerationOver", "GenerationUnfinished",
    "IdentitiesExhausted", "IdentityConflict", "Input", "InternalError", "InvalidInput",
    "Limits", "LiveRuntime", "MemoryContext", "MidcourseError", "Misuse",
    "NoActiveGeneration", "NoRoom", "QueueFull", "Receipt", "RefusalCode", "Request",
    "Requests", "RuntimeClosed", "SteeringRefused", "SteeringUnavailable", "Subscription",
    "TooLate",
]  # fmt: skip

# What each class of the library shows to a host, beside what it has of its base.
MEMBERS = {
    "Batch": "inputs messages sent unsent",
    "Context": "add_message",
    "Event": "data sequence session_id time to_json type version",
    "FromThread": "input pending receipt receipts stop submit submit_steering",
    "Gap": "first last lost",
    "Generation": (
        "boundary checkpoint finish id outcome reason request_count requests take text wait_steered"
    ),
    "GenerationBlock": "",
    "Input": "attachments from_json id kind source target_generation_id text to_json",
    "Limits": (
        "attachment_bytes attachments confirm_timeout event_history id_chars identities pending "
        "text_chars write_grace"
    ),
    "LiveRuntime": (
        "aclose capability closed events from_thread generation input open_generation pending "
        "receipt receipts serve session_id settled stop submit submit_steering subscribe"
    ),
    "MemoryContext": "add_message confirm",
    "Request": "finish input_ids number",
    "Requests": "",
    "Subscription": "close",
}
EXCEPTIONS = [
    name
    for name in NAMES
    if inspect.isclass(getattr(midcourse, name)) and issubclass(getattr(midcourse, name), Exception)
]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(midcourse, name))]


def public(cls: type) -> list[str]:
    """What a host can reach: methods, properties, and the attributes of an instance."""
    names = {*vars(cls), *vars(cls).get("__annotations__", {}), *vars(cls).get("__slots__", ())}
    return sorted(name for name in names if not name.startswith("_"))


@pytest.mark.promise("house.public_names")
def test_the_public_names_are_these_and_no_others() -> None:
    found = [
        name
        for name, value in vars(midcourse).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    ]
    assert sorted(found) == sorted(NAMES)


@pytest.mark.promise("house.public_names")
def test_every_public_name_stands_in_one_private_module_that_lists_it() -> None:
    for name in NAMES:
        value = getattr(midcourse, name)
        if inspect.isclass(value):
            module: Any = inspect.getmodule(value)
            assert module.__name__.startswith("midcourse._"), name
            assert name in module.__all__, name


@pytest.mark.promise("house.public_names", "capability.not_cancellable",
                     "capability.no_provider_native")  # fmt: skip
@pytest.mark.parametrize("name", MEMBERS)
def test_a_public_class_shows_these_members_and_no_others(name: str) -> None:
    assert public(getattr(midcourse, name)) == MEMBERS[name].split()


@pytest.mark.promise("house.public_names")
def test_the_members_of_every_public_class_are_pinned() -> None:
    left = set(CLASSES) - set(EXCEPTIONS) - set(MEMBERS)
    assert left == {"Receipt", "RefusalCode"}
    shown = {"SteeringRefused": ["to_json"]}
    for name in EXCEPTIONS:
        own = [each for each in public(getattr(midcourse, name)) if each != "code"]
        assert own == shown.get(name, []), name


@pytest.mark.promise("house.public_names")
@pytest.mark.parametrize("name", CLASSES)
def test_every_public_class_and_method_is_documented(name: str) -> None:
    cls = getattr(midcourse, name)
    assert cls.__doc__
    assert cls.__doc__ != enum.Enum.__doc__
    for each in public(cls):
        member = inspect.getattr_static(cls, each, None)
        if isinstance(member, property | classmethod | staticmethod) or inspect.isroutine(member):
            assert inspect.getdoc(getattr(cls, each)), f"{name}.{each}"


@pytest.mark.promise("house.public_names")
@pytest.mark.parametrize("name", sorted({*MEMBERS} - {"Context"}))
def test_concrete_public_classes_are_final(name: str) -> None:
    assert getattr(getattr(midcourse, name), "__final__", False)
