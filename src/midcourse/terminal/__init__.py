"""The terminal host: `midcourse demo`, a live agent on a real folder.

It needs the extra `terminal` (click, prompt_toolkit, rich). `cli` is the entry point; the planner,
the instructions that it understands, its tools and the survey need only the standard library.
"""
