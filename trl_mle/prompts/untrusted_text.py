"""Text in prompts that is not ours: programs and what they print, names and values of a table, descriptions."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any


# Special tokens by their form: `<|im_end|>` and `<｜User｜>`, `<start_of_turn>` and `</s>`, `[/INST]` and `[|user|]`
_OPENING = re.compile(r"<(?=[|｜]|/?(?P<angle>[\w:@.-]{1,60})>)|\[(?=/?(?P<square>[A-Z_]{1,60})\]|[|@]\w{1,60}[|@]\])")
_SURROGATE = re.compile("[\ud800-\udfff]")  # no tokenizer takes half a character
_IN_ANGLES = re.compile(
    r"\w+[_:]\w+|unused\d+|s|pad|unk|mask|[be]o[sdptw]|s[eo]p|cls|think|tool|image|video|audio|img|system|user|assistant|role"
    r"|message|filename|reponame|sys",
    re.IGNORECASE,
)
_IN_SQUARES = re.compile(
    r"INST|SYS|IMG|IMG_BREAK|IMG_END|THINK|PREFIX|MIDDLE|SUFFIX|SYSTEM_PROMPT|ARGS|CALL_ID|AUDIO|BEGIN_AUDIO|TRANSCRIBE"
    r"|(?:AVAILABLE_)?TOOLS|TOOL_(?:CALLS|RESULTS|CONTENT)|MODEL_SETTINGS"
)


def plain_text(text: str, special_tokens: Iterable[str] = ()) -> str:
    """
    Changes a text so that no tokenizer reads special tokens from it, such as the end of the user's message: inserts a space
    after the first character of everything that looks like one, which in Python changes nothing outside of strings. If
    Unicode normalization (NFKC) would create special tokens, the text is normalized first. The model's special tokens may be
    given, see [`special_tokens_of`]; those of one character stay.
    """
    known = _pattern(tuple(special_tokens))
    plain = _broken_up(_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text), known)
    normal = plain if plain.isascii() else unicodedata.normalize("NFKC", plain)
    return plain if _broken_up(normal, known) == normal else _broken_up(normal, known)


def plain_messages(prompt: list[dict[str, Any]], special_tokens: Iterable[str]) -> list[dict[str, Any]]:
    """Removes special tokens from the texts of a conversation, before a chat template adds its own."""
    return [message | {"content": _plain_content(message["content"], special_tokens)} for message in prompt]


def _plain_content(content: Any, special_tokens: Iterable[str]) -> Any:
    if isinstance(content, str):
        return plain_text(content, special_tokens)
    if isinstance(content, list):
        return [
            part | {"text": plain_text(part["text"], special_tokens)} if part.get("type") == "text" else part
            for part in content
        ]
    return content  # `None`, beside tool calls


def special_tokens_of(tokenizer: object) -> tuple[str, ...]:
    """The special tokens of a tokenizer of transformers."""
    tokens = tokenizer.added_tokens_decoder.values()  # type: ignore[attr-defined]
    return tuple(token.content for token in tokens if token.special)


def fence_for(*texts: str) -> str:
    """A fence for blocks of Markdown that none of these texts can close."""
    runs = (len(run) for text in texts for run in re.findall("`+", unicodedata.normalize("NFKC", text)))
    return "`" * max(3, 1 + max(runs, default=0))


def _broken_up(text: str, known: re.Pattern[str] | None) -> str:
    text = _OPENING.sub(_with_space, text)
    return known.sub(lambda first: f"{first[0]} ", text) if known is not None else text


def _with_space(opening: re.Match[str]) -> str:
    angle, square = opening["angle"], opening["square"]
    is_name = (angle is not None and not _IN_ANGLES.fullmatch(angle)) or (
        square is not None and not _IN_SQUARES.fullmatch(square)
    )
    return opening[0] if is_name else f"{opening[0]} "


@lru_cache(maxsize=8)
def _pattern(special_tokens: tuple[str, ...]) -> re.Pattern[str] | None:
    """The first characters of these tokens."""
    parts = [f"{re.escape(token[0])}(?={re.escape(token[1:])})" for token in special_tokens if len(token) > 1]
    return re.compile("|".join(parts)) if parts else None
