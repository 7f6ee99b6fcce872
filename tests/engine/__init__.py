"""Tests of the engine: boundary, writes, cancellation, finish, the block."""
