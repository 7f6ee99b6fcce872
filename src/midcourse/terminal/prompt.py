"""The line at which a person types while the agent works: prompt_toolkit in a worker thread.

Its own asyncio loop lives in that thread, so that the host may run on trio or on asyncio. A thread
cannot be cancelled without leaving the terminal raw; `close` asks the prompt to end, from anywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from time import monotonic

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.input import Input


def _keys() -> Input | None:
    """Return an input that keeps the terminal raw while output is printed above the prompt.

    Prompt_toolkit gives the terminal its own mode back for each piece of output. A key that comes
    in that moment is the line discipline's: Ctrl-D is lost and Ctrl-C a signal.
    """
    if sys.platform == "win32":
        return None
    from prompt_toolkit.input.vt100 import Vt100Input  # not there on Windows

    class Keys(Vt100Input):
        def cooked_mode(self) -> AbstractContextManager[None]:
            return nullcontext()

    return Keys(sys.stdin)


class LinePrompt:
    """Reads lines until it is closed or left.

    Args:
        on_line: Called in the prompt's thread with each line; returning False leaves.
        on_interrupt: The same for Ctrl-C.
        status: The text of the line below the prompt; called often, from the prompt's thread.
    """

    def __init__(
        self,
        *,
        on_line: Callable[[str], bool],
        on_interrupt: Callable[[], bool],
        status: Callable[[], str],
    ) -> None:
        self._on_line = on_line
        self._on_interrupt = on_interrupt
        self._closing = False
        self.last_touched: float = monotonic()
        """When a person last typed, by `time.monotonic()`."""
        self._session: PromptSession[str] = PromptSession(
            "> ",
            input=_keys(),
            bottom_toolbar=status,
            refresh_interval=0.25,
            reserve_space_for_menu=0,
        )
        self._session.default_buffer.on_text_changed += self._touched

    def run(self) -> None:
        """Read lines until `close`, Ctrl-D, or a callback that says so. Blocks its thread."""
        # Raw between two lines as well, or a key that comes there would get lost in the same way.
        with self._session.input.raw_mode():
            while not self._closing and self._read_line():
                self._touched(None)

    def _read_line(self) -> bool:
        try:
            line = self._session.prompt(pre_run=self._exit_if_closing)
        except KeyboardInterrupt:
            return self._on_interrupt()
        except EOFError:
            return False
        return self._on_line(line)

    def close(self) -> None:
        """Make `run` return soon. From any thread, more than once, before `run` too."""
        self._closing = True
        loop = self._session.app.loop
        # No loop: the prompt is between two lines and looks at the flag before the next, or
        # as that one begins (pre_run).
        if loop is not None:
            with suppress(RuntimeError):  # that loop ended meanwhile
                loop.call_soon_threadsafe(self._exit_if_closing)

    def _exit_if_closing(self) -> None:
        app: Application[str] = self._session.app
        if self._closing and app.is_running and not app.is_done:
            app.erase_when_done = True  # output may still be on its way and come below it
            app.exit(exception=EOFError())

    def _touched(self, _: object) -> None:
        self.last_touched = monotonic()
