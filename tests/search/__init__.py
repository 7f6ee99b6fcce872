"""Deterministic search over the schedules of a steering session, on Trio and on asyncio."""
