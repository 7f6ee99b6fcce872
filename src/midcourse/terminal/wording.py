"""Foreign text made safe to show: file names, lines of files, whatever a person typed.

A file name may hold a newline, an escape sequence or bytes that are no UTF-8, and a terminal obeys
what it is sent. So everything that this program did not write itself passes through here first.
"""

from __future__ import annotations

import unicodedata

# Characters of these categories steer a terminal (control, format, with the bidirectional overrides
# among them), cannot be encoded (surrogates), or are no characters, which XML refuses.
_UNSHOWABLE = frozenset({"Cc", "Cf", "Cn", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # Persian, Indic scripts and composed pictures need them


def printable(text: str) -> str:
    r"""Return `text` on one line, with whatever a terminal would obey or refuse written as escapes.

    Letters of every script stay as they are. A surrogate that stands for a byte of a name that is
    no UTF-8 becomes `\xNN`, a newline becomes `\n`.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _UNSHOWABLE or character in _JOINERS:
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


def shortened(text: str, width: int) -> str:
    """Return `printable(text)`, cut to at most `width` characters with an ellipsis of dots."""
    line = printable(text)
    if len(line) <= width:
        return line
    return line[: max(0, width - 3)].rstrip() + "..."


def shortened_path(path: str, width: int = 40) -> str:
    """Return `printable(path)`, cut at its beginning: the end of a path tells most."""
    line = printable(path)
    return line if len(line) <= width else "..." + line[3 - width :]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return `1 file`, `2 files`, `1,000 files`."""
    word = noun if number == 1 else plural or f"{noun}s"
    return f"{number:,} {word}"


def size_of(number: int) -> str:
    """Return a number of bytes as people read it: `312 B`, `4.1 kB`, `12 MB`."""
    if number < 1000:
        return f"{number} B"
    value = float(number)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.5 or unit == "GB":
            break
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def listed(names: list[str], most: int = 4) -> str:
    """Return `a, b and 3 more` of names that are already printable."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"
