"""Rules for text that is stored: what every engine can hold, and where to cut."""

import re

_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def is_storable(text: str) -> bool:
    """Whether every engine can store `text`: no NUL and no lone surrogate."""
    if "\x00" in text:
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_storable_json(text: str) -> bool:
    """Whether every engine can store the JSON document `text`: no NUL in it, escaped or not.

    Six characters that only look like an escaped NUL, within a string, are no NUL.
    """
    return is_storable(text) and not ("u0000" in text and _ESCAPED_NUL.search(text))


def cut_to_bytes(text: str, size_bytes_max: int) -> str:
    """Return the longest prefix of `text` of at most `size_bytes_max` UTF-8 bytes.

    The cut falls between code points, never inside one.
    """
    data = text.encode("utf-8")
    if len(data) <= size_bytes_max:
        return text
    return data[:size_bytes_max].decode("utf-8", errors="ignore")
