"""Correct a running agent without losing, repeating or misplacing a word of it."""

from ._context import MemoryContext
from ._core.errors import (
    AdmissionClosed,
    GenerationActive,
    GenerationBusy,
    GenerationMismatch,
    GenerationOver,
    GenerationUnfinished,
    IdentitiesExhausted,
    IdentityConflict,
    InternalError,
    InvalidInput,
    MidcourseError,
    Misuse,
    NoActiveGeneration,
    NoRoom,
    QueueFull,
    RefusalCode,
    RuntimeClosed,
    SteeringRefused,
    SteeringUnavailable,
    TooLate,
)
from ._core.events import Event, Gap
from ._core.values import ContextUnchanged, Input, Limits, Receipt
from ._engine.batch import Batch
from ._engine.block import GenerationBlock
from ._engine.generation import Checkpoint, Context, Generation
from ._engine.requests import Request, Requests
from ._runtime import FromThread, LiveRuntime
from ._subscription import Subscription

__all__ = [
    "AdmissionClosed",
    "Batch",
    "Checkpoint",
    "Context",
    "ContextUnchanged",
    "Event",
    "FromThread",
    "Gap",
    "Generation",
    "GenerationActive",
    "GenerationBlock",
    "GenerationBusy",
    "GenerationMismatch",
    "GenerationOver",
    "GenerationUnfinished",
    "IdentitiesExhausted",
    "IdentityConflict",
    "Input",
    "InternalError",
    "InvalidInput",
    "Limits",
    "LiveRuntime",
    "MemoryContext",
    "MidcourseError",
    "Misuse",
    "NoActiveGeneration",
    "NoRoom",
    "QueueFull",
    "Receipt",
    "RefusalCode",
    "Request",
    "Requests",
    "RuntimeClosed",
    "SteeringRefused",
    "SteeringUnavailable",
    "Subscription",
    "TooLate",
]
