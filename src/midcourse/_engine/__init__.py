"""The engine: one Trio program that drives the core; on asyncio the same source runs on AnyIO."""
