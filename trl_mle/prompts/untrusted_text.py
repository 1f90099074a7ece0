"""Text in prompts that is not ours: programs and what they print, names and values of a table, descriptions."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any


# Special tokens by their form: `<|im_end|>` and `<｜User｜>`, `<start_of_turn>` and `</s>`, `[/INST]` and `[|user|]`
_IN_ANGLES = (
    r"\w{1,60}[_:]\w{1,60}|unused\d{1,9}|s|pad|unk|mask|[be]o[sdptw]|s[eo]p|cls|think|tool|image|video|audio|img"
    r"|system|user|assistant|role|message|filename|reponame|sys"
)
_IN_SQUARES = (
    r"INST|SYS|IMG|IMG_BREAK|IMG_END|THINK|PREFIX|MIDDLE|SUFFIX|SYSTEM_PROMPT|ARGS|CALL_ID|AUDIO|BEGIN_AUDIO"
    r"|TRANSCRIBE|(?:AVAILABLE_)?TOOLS|TOOL_(?:CALLS|RESULTS|CONTENT)|MODEL_SETTINGS"
)
_OPENING = re.compile(rf"<(?=[|｜]|/?(?i:{_IN_ANGLES})>)|\[(?=/?(?:{_IN_SQUARES})\]|[|@]\w{{1,60}}[|@]\])")
_SURROGATE = re.compile("[\ud800-\udfff]")  # no tokenizer takes half a character


def plain_text(text: str, special_tokens: Iterable[str] = ()) -> str:
    """
    Changes a text so that no tokenizer reads special tokens from it, such as the end of the user's message: inserts a
    space after the first character of what looks like one, or is the model's (see [`special_tokens_of`]). In Python,
    that changes only strings. A text is normalized first if Unicode normalization (NFKC) would create special tokens.
    """
    known = _pattern(tuple(special_tokens))
    plain = _broken_up(_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text), known)
    normal = plain if plain.isascii() else unicodedata.normalize("NFKC", plain)
    return plain if _broken_up(normal, known) == normal else _broken_up(normal, known)


def plain_messages(prompt: list[dict[str, Any]], special_tokens: Iterable[str]) -> list[dict[str, Any]]:
    """Removes special tokens from the texts of a conversation, before a chat template adds its own."""
    return [
        message | {"content": plain_text(message["content"], special_tokens)}
        if isinstance(message["content"], str)  # `None` beside tool calls
        else message
        for message in prompt
    ]


def special_tokens_of(tokenizer: object) -> tuple[str, ...]:
    """The special tokens of a tokenizer of transformers."""
    tokens = tokenizer.added_tokens_decoder.values()  # type: ignore[attr-defined]
    return tuple(token.content for token in tokens if token.special)


def fence_for(*texts: str) -> str:
    """A fence for blocks of Markdown that none of these texts can close."""
    runs = (len(run) for text in texts for run in re.findall("`+", unicodedata.normalize("NFKC", text)))
    return "`" * max(3, 1 + max(runs, default=0))


def _broken_up(text: str, known: re.Pattern[str]) -> str:
    return known.sub(r"\g<0> ", _OPENING.sub(r"\g<0> ", text))


@lru_cache(maxsize=8)
def _pattern(special_tokens: tuple[str, ...]) -> re.Pattern[str]:
    parts = [f"{re.escape(token[0])}(?={re.escape(token[1:])})" for token in special_tokens if len(token) > 1]
    return re.compile("|".join(parts) or r"(?!)")
