"""Mirrors of the competitions with long texts: essays, requests, conversations."""

import io
import json
import zipfile
from random import Random

import numpy as np
import pandas as pd
from numpy.random import RandomState

from trl_mle.competitions.mirrors.mirror import (
    VOCABULARY,
    Drawn,
    Grammar,
    Mirror,
    cut,
    draw_yes_or_no,
    generator,
    random_ids,
)


_ESSAY_SHARES = [0.07, 0.27, 0.36, 0.22, 0.06, 0.02]
_ESSAY_NOISE = 0.4


def _draw_essays(rows: int, random: RandomState) -> Drawn:
    # A writer's four skills go together, but not quite, and the raters see all of them.
    skills = 0.6 * random.normal(size=(rows, 1)) + 0.8 * random.normal(size=(rows, 4))
    quality = skills @ [0.35, 0.25, 0.25, 0.25]
    rated = quality + _ESSAY_NOISE * quality.std() * random.normal(size=rows)
    single = generator(random)
    # Writers for whom that share of the words is less common ones
    levels = [Grammar("essays", single, (1 - share, share)) for share in (0.1, 0.3, 0.5, 0.7, 0.9)]
    texts = [_essay(levels, single, *row) for row in skills.tolist()]
    score = pd.DataFrame({"score": 1 + cut(rated, _ESSAY_SHARES)})
    ceiling = pd.DataFrame({"score": 1 + cut(quality, _ESSAY_SHARES)})
    return Drawn(pd.DataFrame({"full_text": texts}).join(score), score, ceiling)


def _essay(
    levels: list[Grammar], random: Random, fluency: float, spelling: float, vocabulary: float, structure: float
) -> str:
    """An essay by one whose skills are as many standard deviations above the average."""
    sentences = max(3, round(13 + 4 * fluency + random.gauss(0, 1.5)))
    connected, paragraph = 0.25 + 0.12 * structure, 0.12 + 0.06 * structure
    misspelled = 0.05 * 2**-spelling
    text = ""
    for number in range(sentences):
        grammar = levels[min(4, max(0, round(2 + vocabulary + random.gauss(0, 0.7))))]
        sentence = f"{grammar.write('claim')} {grammar.write('reason')}".strip()
        start = grammar.write("connective") if random.random() < connected else ""
        sentence = start + (sentence if start else sentence[:1].upper() + sentence[1:])
        words = [_misspell(word, random) if random.random() < misspelled else word for word in sentence.split(" ")]
        gap = "\n\n" if random.random() < paragraph else " "
        text += (gap if number else "") + " ".join(words) + random.choice("....!?" if start else ".....,")
    return text


def _misspell(word: str, random: Random) -> str:
    if len(word) < 4:
        return word
    at = random.randrange(1, len(word) - 2)
    before, letter, after = word[:at], word[at], word[at + 1 :]
    return random.choice([before + after, before + after[0] + letter + after[1:], before + letter * 2 + after])


_SUBREDDITS, _REASONS = VOCABULARY["subreddits"].split(), VOCABULARY["reasons"]


def _draw_pizza(rows: int, random: RandomState) -> Drawn:
    single = generator(random)
    grammar = Grammar("requests", single)
    reasons = [[part for part, (share, _) in _REASONS.items() if single.random() < share] for _ in range(rows)]
    texts = [_request(grammar, single, parts) for parts in reasons]
    titles = [grammar.write("title") for _ in range(rows)]

    age = random.exponential(250, rows)
    comments = random.lognormal(3.5, 1.6, rows).astype(int)
    posts = random.lognormal(2, 1.3, rows).astype(int)
    in_forum = random.poisson(np.where(random.random_sample(rows) < 0.25, 4, 0.1))
    karma = ((comments * 2.5 + posts * 9) * random.lognormal(0, 0.8, rows)).astype(int)
    votes = karma * random.uniform(1.2, 3, rows)
    subreddits = [sorted(single.sample(_SUBREDDITS, single.randrange(1, 12))) for _ in range(rows)]
    time = random.randint(1_307_000_000, 1_380_000_000, rows)
    first_seen = np.where(in_forum > 0, random.uniform(0, 1, rows) * age, 0)

    words = np.array([len(text.split()) for text in texts])
    logits = np.array([sum(_REASONS[part][1] for part in parts) for parts in reasons])
    logits = logits + 0.6 * np.log(words / 40) + 0.35 * np.log1p(karma) / 2
    logits = logits + 0.8 * (in_forum > 0) + 0.3 * np.log1p(age) / 2
    labels, chances = draw_yes_or_no(logits, 0.754, 0.8, random)
    received = labels.astype(bool)

    later = random.uniform(100, 900, rows)  # days from the request to when the data was collected
    more = random.lognormal(3, 1.2, rows).astype(int)
    table = {
        "giver_username_if_known": "N/A",
        "number_of_downvotes_of_request_at_retrieval": random.poisson(2.5, rows),
        "number_of_upvotes_of_request_at_retrieval": random.poisson(4 + 3 * received),
        "post_was_edited": random.random_sample(rows) < 0.08 + 0.12 * received,
        "request_number_of_comments_at_retrieval": random.poisson(2 + 3 * received),
        "request_text": texts,
        "request_text_edit_aware": texts,
        "request_title": titles,
        "requester_number_of_subreddits_at_request": [len(names) for names in subreddits],
        "requester_received_pizza": received,
        "requester_subreddits_at_request": subreddits,
        "requester_user_flair": [single.choice(["shroom", "PIF"]) if given else None for given in received],
        "requester_username": [f"{single.choice(_SUBREDDITS).lower()}_{single.randrange(10**6)}" for _ in range(rows)],
        "unix_timestamp_of_request": time.astype(float),
        "unix_timestamp_of_request_utc": time - 3600.0,
    }
    for name, then, now in (
        ("account_age_in_days", age.round(6), (age + later).round(6)),
        ("days_since_first_post_on_raop", first_seen.round(6), (first_seen + later).round(6)),
        ("number_of_comments", comments, comments + more),
        ("number_of_comments_in_raop", in_forum, in_forum + random.poisson(0.5 + 2 * received)),
        ("number_of_posts", posts, posts + more // 4),
        ("number_of_posts_on_raop", (in_forum > 3).astype(int), 1 + (in_forum > 3)),
        ("upvotes_minus_downvotes", karma, karma + 3 * more),
        ("upvotes_plus_downvotes", votes.astype(int), votes.astype(int) + 5 * more),
    ):
        table |= {f"requester_{name}_at_request": then, f"requester_{name}_at_retrieval": now}
    target = pd.DataFrame({"requester_received_pizza": labels})
    ceiling = pd.DataFrame({"requester_received_pizza": chances})
    return Drawn(pd.DataFrame(table), target, ceiling)


def _request(grammar: Grammar, random: Random, parts: list[str]) -> str:
    parts = parts + ["filler"] * random.randint(1, 5)
    random.shuffle(parts)
    return " ".join(grammar.sentence(part) + "." for part in parts).replace(". I ", ".\n\nI ", 1)


def _adapt_pizza(files: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame | bytes]:
    adapted: dict[str, pd.DataFrame | bytes] = {**files}
    for part in ("train", "test"):
        records = files[f"public/{part}.csv"].to_dict("records")
        adapted[f"public/{part}.json"] = content = json.dumps(records, indent=1, sort_keys=True).encode()
        # Stored with a fixed date rather than deflated: the same bytes whatever the clock and the version of zlib.
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr(zipfile.ZipInfo(f"{part}.json", (2014, 5, 29, 0, 0, 0)), content)
        adapted[f"public/{part}.zip"] = archive.getvalue()
        del adapted[f"public/{part}.csv"]
    return adapted


_MODELS = VOCABULARY["models"]
_WINNERS = ["winner_model_a", "winner_model_b", "winner_tie"]


def _draw_chats(rows: int, random: RandomState) -> Drawn:
    single = generator(random)
    grammar = Grammar("chats", single)
    chats, appeals = [], []
    for _ in range(rows):
        topic = grammar.write("topic")
        turns = single.choices([1, 2, 3], weights=[85, 10, 5])[0]
        prompts = [grammar.write("follow" if turn else "ask").replace("TOPIC", topic) for turn in range(turns)]
        models = single.sample(list(_MODELS), 2)
        answers = [[_answer(grammar, single, topic) for _ in prompts] for _ in models]
        chats.append([*models, *map(json.dumps, (prompts, *[[text for text, _ in answer] for answer in answers]))])
        appeals.append([np.mean([appeal for _, appeal in answer]) for answer in answers])
        appeals[-1] = [appeal + 0.25 * _MODELS[model] for appeal, model in zip(appeals[-1], models, strict=True)]
    lead = 0.7 * np.diff(appeals)[:, 0]  # of b over a
    chances = np.exp(np.stack([-lead, lead, 0.3 - 0.4 * np.abs(lead)], axis=1))
    chances /= chances.sum(axis=1, keepdims=True)
    winner = (random.random_sample((rows, 1)) > chances.cumsum(axis=1)[:, :2]).sum(axis=1)
    table = pd.DataFrame(chats, columns=["model_a", "model_b", "prompt", "response_a", "response_b"])
    targets = pd.DataFrame(np.eye(3, dtype=int)[winner], columns=_WINNERS)
    return Drawn(table.join(targets), targets, pd.DataFrame(chances, columns=_WINNERS))


def _answer(grammar: Grammar, random: Random, topic: str) -> tuple[str, float]:
    """What a model answers, and how much people like it: facts on the topic, not many words; lists; no refusals."""
    facts, empty = random.choice([0, 1, 2, 3, 4, 5, 6]), random.choice([0, 0, 1, 2, 4])
    subject = topic if random.random() < 0.8 else grammar.write("topic")  # some lose the thread
    refused, listed = random.random() < 0.1, random.random() < 0.3
    sentences = [grammar.write("fact").replace("TOPIC", subject) for _ in range(facts)]
    sentences += [grammar.write("empty") for _ in range(empty)]
    random.shuffle(sentences)
    if refused or not sentences:
        sentences = [grammar.write("refusal")]
        return f"{sentences[0]}.", -1.5
    sentences = [text[:1].upper() + text[1:] for text in sentences]
    text = "\n".join(f"- {text}" for text in sentences) if listed else " ".join(f"{text}." for text in sentences)
    return text, (0.4 if subject == topic else -0.3) * facts - 0.2 * empty + 0.4 * listed


LONG_TEXT_MIRRORS = {
    "learning-agency-lab-automated-essay-scoring-2": Mirror(_draw_essays, random_ids(0, 16**7, "{:07x}".format)),
    "random-acts-of-pizza": Mirror(
        _draw_pizza, random_ids(36**4, 36**5, lambda number: f"t3_{np.base_repr(number, 36).lower()}"), _adapt_pizza
    ),
    "lmsys-chatbot-arena": Mirror(_draw_chats, random_ids(30_000, 2**32)),
}
