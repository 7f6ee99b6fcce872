"""The first step of admission: an input is checked, copied and made comparable.

It needs no state of the session, so it is done once, before anything can wait; what a host does
to its objects afterwards changes nothing.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import NamedTuple, NoReturn

from .errors import InvalidInput
from .tables import Kind
from .values import Input, Json, Limits

__all__ = ["Offer", "prepare"]

_KINDS = frozenset(Kind)

NESTING = 100
"""How deep an attachment may be nested: what is accepted here can be copied from any stack."""


class Offer(NamedTuple):
    """A well-formed submission, a copy of what the host gave.

    `anchored` is apart from `anchor` because a host may ask for an anchored steer and name no
    generation: that is refused, never treated as an ordinary one.
    """

    input: Input
    anchor: str | None
    anchored: bool
    digest: bytes


def prepare(given: Input, anchor: str | None, *, anchored: bool, limits: Limits) -> Offer:
    """Check `given` and copy it.

    Args:
        given: what the host submits.
        anchor: the generation named in the call, if any.
        anchored: whether the call is one for anchored steers.
        limits: the bounds of the runtime.

    Raises:
        InvalidInput: it is malformed. Nothing is ever cut to size.
    """
    if not isinstance(given, Input):
        raise InvalidInput(f"a submission is a midcourse.Input, not {type(given).__name__}")
    kind, text, source, input_id = given.kind, given.text, given.source, given.id
    usable_id = input_id if _is_text(input_id) else None
    inner = given.target_generation_id
    target = inner if anchor is None else anchor

    def refuse(why: str) -> NoReturn:
        named = target if isinstance(target, str) else None
        raise InvalidInput(why, input_id=usable_id, generation_id=named)

    if not isinstance(kind, str) or kind not in _KINDS:
        refuse(f"kind is one of {', '.join(sorted(_KINDS))}, not {kind!r}")
    for named in (anchor, inner):
        if named is not None and not _is_text(named):
            refuse(f"an anchor is the id of a generation, not {named!r}")
    if anchor is not None and inner is not None and anchor != inner:
        refuse(f"the input is anchored to {inner!r}, the call to {anchor!r}")
    anchored = anchored or target is not None
    if anchored and kind != Kind.STEER:
        refuse(f"only a steer can be anchored, not {kind!r}")
    if not _is_text(text):
        refuse("text is a string of Unicode characters")
    if not isinstance(given.attachments, (list, tuple)):
        refuse("attachments are a list or a tuple of JSON values")
    if kind != Kind.STOP:
        if usable_id is None or not 1 <= len(usable_id) <= limits.id_chars:
            refuse(f"an id has 1 to {limits.id_chars} characters")
        if not text and not given.attachments:
            refuse("an input without attachments needs a text")
        if len(text) > limits.text_chars:
            refuse(f"a text has at most {limits.text_chars} characters, this one {len(text)}")
    if kind == Kind.SERVICE:
        if not _is_text(source) or source == "user" or not 1 <= len(source) <= limits.id_chars:
            refuse(
                f"a service names a source other than user, of 1 to {limits.id_chars} characters"
            )
    elif source != "user":
        refuse(f"the source of a {kind} input is user, not {source!r}")

    if len(given.attachments) > limits.attachments:
        refuse(f"an input has at most {limits.attachments} attachments")
    attachments: tuple[Json, ...] = ()
    canonical = ""
    if given.attachments:
        listed = list(given.attachments)
        if wrong := _unwieldy(listed, limits.attachment_bytes):
            refuse(f"attachments are {wrong}")
        try:
            canonical = _canonical(listed)
            size = len(canonical.encode())
            copy = json.loads(canonical)
            # What JSON does not give back equal (a tuple, a number as a key) was no JSON value.
            same = copy == listed
        except (TypeError, ValueError) as error:
            refuse(f"an attachment is no JSON value: {type(error).__name__}")
        if not same:
            refuse("an attachment is no JSON value")
        if size > limits.attachment_bytes:
            refuse(f"attachments have at most {limits.attachment_bytes} bytes, these {size}")
        attachments = tuple(copy)

    taken = given
    if attachments or not _is_plain(given):
        # A copy that nobody else can change, its texts plain `str` whatever the host used.
        taken = Input(
            str(str.__str__(kind)),
            str(str.__str__(text)),
            id=str(str.__str__(usable_id)) if usable_id is not None else "",
            source=str(str.__str__(source)),
            target_generation_id=inner and str(str.__str__(inner)),
            attachments=attachments,
        )
    anchor = target and str(str.__str__(target))
    parts = (
        taken.kind,
        taken.text,
        taken.source,
        canonical,
        "" if anchor is None else f"to {anchor}",
    )
    # Each with its length before it, so that two different inputs are never one string.
    content = "".join([f"{len(part)}:{part}" for part in parts])
    digest = blake2b(content.encode(), digest_size=32).digest()
    return Offer(taken, anchor, anchored, digest)


def _is_plain(given: Input) -> bool:
    """Whether nothing of it can be changed, nor is more than it seems: it needs no copy."""
    anchor = given.target_generation_id
    texts = (given.kind, given.text, given.id, given.source)
    return (
        type(given.attachments) is tuple
        and (anchor is None or type(anchor) is str)
        and all(type(text) is str for text in texts)
    )


def _unwieldy(attachments: list[Json], size: int) -> str:
    """Why these must not even be walked by a recursion, in words; empty if they may.

    Shared parts count as often as they occur, as they do in JSON, where each takes a byte at
    least: so a small value that stands for an enormous one, or for itself, is found early.
    """
    stack = [(attachment, 1) for attachment in attachments]
    seen = 0
    while stack:
        value, depth = stack.pop()
        seen += 1
        if depth > NESTING:
            return f"nested more than {NESTING} deep"
        if seen + len(stack) > size:
            return f"of at most {size} bytes"
        if isinstance(value, dict):
            stack += [(part, depth + 1) for part in value.values()]
        elif isinstance(value, (list, tuple)):
            stack += [(part, depth + 1) for part in value]
    return ""


_canonical = json.JSONEncoder(
    sort_keys=True, allow_nan=False, ensure_ascii=False, separators=(",", ":")
).encode


def _is_text(value: object) -> bool:
    """Whether `value` is a string that can be encoded: no lone surrogates."""
    if not isinstance(value, str):
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
