"""Mirrors of the competitions with short texts: comments, tweets, phrases, sentences."""

from random import Random

import numpy as np
import pandas as pd
from numpy.random import RandomState

from trl_mle.competitions.mirrors.mirror import (
    VOCABULARY,
    Drawn,
    Grammar,
    Mirror,
    draw_classes,
    exact_shares,
    generator,
    random_ids,
)


def _draw_insults(rows: int, random: RandomState) -> Drawn:
    insults = draw_classes(["other", "Insult"], [0.74, 0.26], 0.1, rows, random)
    single = generator(random)
    grammar = Grammar("comments", single)
    comments = dict[str, None]()  # all different, since their text is their id; a set that keeps its order
    for insult in insults.shown:
        before = len(comments)
        while len(comments) == before:
            comments[f'"{_comment(grammar, single, insult)}"'] = None
    dates = [_date(single) for _ in comments]
    table = pd.DataFrame({"Insult": insults.labels, "Date": dates, "Comment": list(comments)})
    return Drawn(table, table[["Insult"]], insults.ceiling[["Insult"]])


def _comment(grammar: Grammar, random: Random, insult: bool) -> str:
    sentences = ["insult"] if insult else ["other"]
    sentences += random.choices(["plain", "harsh", "kind"], weights=[5, 2, 1], k=random.choice([0, 0, 1, 1, 2, 3]))
    random.shuffle(sentences)
    text = " ".join(_spoken(grammar.sentence(symbol), random) + grammar.write("end") for symbol in sentences)
    return text.replace(". ", r".\n", 1) if random.random() < 0.1 else text  # line ends are written so in the original


def _spoken(text: str, random: Random) -> str:
    """As people type: in capitals, in lower case, with a letter held or a digit for a letter."""
    way = random.random()
    if way < 0.08:
        return text.upper()
    if way < 0.3:
        return text.lower()
    if way < 0.4:
        return text.replace("o", "0").replace("i", "1")
    if way < 0.5:
        at = random.randrange(len(text))
        return text[:at] + text[at] * random.choice([2, 3]) + text[at:]
    return text


def _date(random: Random) -> str:
    """`YYYYMMDDhhmmssZ`, or empty where it is not known."""
    if random.random() < 0.18:
        return ""
    day = f"2012{random.randint(1, 9):02}{random.randint(1, 28):02}"
    return f"{day}{random.randrange(24):02}{random.randrange(60):02}{random.randrange(60):02}Z"


def _adapt_insults(files: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    test, answers = files["public/test.csv"], files["private/test.csv"]
    sample = files["public/sample_submission_null.csv"]
    columns = ["Insult", "Date", "Comment"]
    return files | {
        "public/sample_submission_null.csv": sample.assign(Date=test["Date"])[columns],
        "private/test.csv": answers.assign(Date=test["Date"])[columns].assign(Usage="PrivateTest"),
    }


_SENTIMENTS = ["neutral", "positive", "negative"]


def _draw_tweets(rows: int, random: RandomState) -> Drawn:
    sentiment = exact_shares([0.4, 0.31, 0.29], rows, random)
    single = generator(random)
    grammar = Grammar("tweets", single)
    drawn = [_tweet(grammar, single, _SENTIMENTS[number]) for number in sentiment]
    table = pd.DataFrame(drawn, columns=["text", "selected_text", "ceiling"])
    table.insert(2, "sentiment", np.array(_SENTIMENTS)[sentiment])
    ceiling = pd.DataFrame({"selected_text": table.pop("ceiling")})
    return Drawn(table, table[["selected_text"]], ceiling)


def _tweet(grammar: Grammar, random: Random, sentiment: str) -> tuple[str, str, str]:
    """A tweet, what one person has marked in it, and what most people would mark."""
    phrase = grammar.write(sentiment)
    before, after = grammar.write("before"), grammar.write("after")
    opening = before + grammar.write("stop") if before else ""
    closing = grammar.write("stop") + after if after else grammar.write("end")
    text = (" " if random.random() < 0.1 else "") + opening + phrase + closing
    most = text.strip() if sentiment == "neutral" else phrase
    way = random.random()
    if sentiment == "neutral":
        marked = phrase if way < 0.12 else most
    elif way < 0.12:
        marked = text.strip()
    elif way < 0.24 and before:
        marked = f"{opening}{phrase}".split(" ", max(0, opening.count(" ") - 1))[-1].strip() or phrase
    elif way < 0.36:
        marked = phrase.split(" ")[-1]
    else:
        marked = most
    return text, marked, most


_AUTHORS = ["EAP", "HPL", "MWS"]


def _draw_spooky(rows: int, random: RandomState) -> Drawn:
    authors = draw_classes(_AUTHORS, [0.4035, 0.2878, 0.3087], 0.06, rows, random)
    single = generator(random)
    # Writers whose favourites are every third word
    writers = [Grammar("gothic", single, np.where(np.arange(3) == number, 3.0, 1.0).tolist()) for number in range(3)]
    texts = [writers[number].sentence("sentence") for number in authors.shown]
    table = pd.DataFrame({"text": texts, "author": np.array(_AUTHORS)[authors.labels]})
    return Drawn(table, authors.targets, authors.ceiling)


_PATENTS = VOCABULARY["patents"]


def _draw_patents(rows: int, random: RandomState) -> Drawn:
    level = exact_shares([0.2, 0.31, 0.3, 0.14, 0.05], rows, random)
    single = generator(random)
    anchors = []
    for _ in range(max(8, rows // 12)):
        code = single.choice(list(_PATENTS))
        things = _PATENTS[code]["things"]
        number = single.randrange(len(things))
        anchors.append((code, single.choice(_PATENTS[code]["modifiers"]), number, single.choice(things[number])))
    drawn = []
    for similarity in level:
        code, modifier, number, name = anchor = single.choice(anchors)
        drawn.append((f"{modifier} {name}", _similar(anchor, similarity, single), code))
    # A rater sometimes is one step off.
    steps = np.where(random.random_sample(rows) < 0.12, random.choice([-1, 1], rows), 0)
    score = pd.DataFrame({"score": (level + steps).clip(0, 4) / 4})
    table = pd.DataFrame(drawn, columns=["anchor", "target", "context"])
    return Drawn(table.join(score), score, pd.DataFrame({"score": level / 4}))


def _similar(anchor: tuple[str, str, int, str], similarity: int, random: Random) -> str:
    """A phrase as similar to the anchor as `similarity` in quarters says."""
    code, modifier, number, name = anchor
    modifiers, things = _PATENTS[code]["modifiers"], _PATENTS[code]["things"]
    synonym = random.choice([word for word in things[number] if word != name])
    other_modifier = random.choice([word for word in modifiers if word != modifier])
    related = random.choice(things[(number + random.randint(1, len(things) - 1)) % len(things)])
    other_class = _PATENTS[random.choice([other for other in _PATENTS if other != code])]
    foreign = random.choice(random.choice(other_class["things"]))
    phrases = [
        [f"{modifier} {foreign}", f"{name} {foreign}", f"{random.choice(other_class['modifiers'])} {foreign}"],
        [f"{other_modifier} {related}", f"{related}", f"{related} assembly", f"{modifier} {related} housing"],
        [f"{other_modifier} {name}", f"{name}", f"{other_modifier} {synonym}", f"{synonym} assembly"],
        [f"{modifier} {synonym}", f"{synonym} of {modifier} type", f"{modifier} {synonym} assembly"],
        [f"{modifier} {name}s", f"{name} of {modifier} type", f"{modifier} type {name}"],
    ]
    return random.choice(phrases[similarity])


SHORT_TEXT_MIRRORS = {
    "detecting-insults-in-social-commentary": Mirror(_draw_insults, adapt=_adapt_insults),
    "tweet-sentiment-extraction": Mirror(_draw_tweets, random_ids(0, 16**10, "{:010x}".format)),
    "us-patent-phrase-to-phrase-matching": Mirror(_draw_patents, random_ids(0, 2**62, "{:016x}".format)),
    "spooky-author-identification": Mirror(_draw_spooky, random_ids(10_000, 100_000, "id{}".format)),
}
