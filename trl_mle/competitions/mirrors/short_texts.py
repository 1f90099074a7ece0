"""Mirrors of the competitions with short texts: comments, tweets, phrases, sentences."""

from collections.abc import Callable
from random import Random

import numpy as np
import pandas as pd

from trl_mle.competitions.mirrors.mirror import (
    Drawn,
    Grammar,
    Mirror,
    exact_shares,
    generator,
    hex_ids,
    integer_ids,
    mislabel,
    posterior,
)


_COMMENTS = {
    "insult": """you are a {slur}|you're a {bad} {slur}|what a {bad} {slur} you are|only a {slur} would write this|
        nobody asked you, {slur}|go back to your {place}, you {slur}|you write like a {bad} {slur}|
        you {verb} like a {slur}|shut your laptop, {slur}|you and your friends are {bad} {slur}s|
        your mother must be proud of such a {slur}|stop posting, {slur}, you embarrass yourself""",
    "other": """{harsh}|{harsh}|{harsh}|{kind}|{plain}|{plain}""",
    "harsh": """the {person} is a {slur}|what a {bad} {slur} that {person} is|I felt like a {slur} after the {event}|
        this {thing} was made for {slur}s|my {thing} is a {bad} joke, you know|he plays like a {slur}|
        they called me a {slur} at the {event}, you would laugh|only a {bad} {person} would sell that {thing}|
        you can not blame the {person}, but the {event} was {bad}|the {person} and his {slur}s lost the {event}""",
    "kind": """you are a {good} writer|thank you, that {thing} was {good}|you write like a {good} {person}|
        your {thing} is {good}, go on|what a {good} comment, you are right|nobody explains the {event} like you""",
    "plain": """the {event} starts at {number}|did you see the {event} yesterday|
        I bought a {thing} for {number} dollars|
        the {person} said that the {event} will cost {number} millions|where can you get a {good} {thing} in town|
        you need {number} minutes for the {thing}|I think the {person} was {good} at the {event}|
        if you look at the {event}, it was {bad} weather|in my {place} everybody has a {thing}""",
    "slur": """clown|donkey|muppet|turnip|windbag|goose|parrot|dimwit|numpty|blockhead|noodle|simpleton|buffoon|
        nincompoop|fool|pigeon|potato|cabbage|coward|crybaby|loser|nobody|pest|sheep|twit|dunce|idiot|moron""",
    "bad": """silly|stupid|boring|lousy|sad|pathetic|dumb|useless|hopeless|ridiculous|clueless|noisy|rotten|
        miserable""",
    "good": """great|clever|honest|fine|lovely|brilliant|decent|funny|careful|patient|solid|wonderful|cheap|fair""",
    "person": """mayor|coach|referee|singer|teacher|driver|senator|neighbour|goalkeeper|critic|dentist|landlord|
        actor""",
    "event": """match|election|concert|debate|parade|season|meeting|strike|auction|storm|wedding|premiere|race""",
    "thing": """phone|film|car|book|recipe|jacket|guitar|ticket|bicycle|sandwich|game|radio|sofa|garden|kettle""",
    "place": """village|basement|school|office|farm|street|forum|club|kitchen|garage""",
    "verb": """talk|argue|drive|sing|think|vote|dance|cook""",
    "number": """two|five|eight|ten|twelve|20|35|60|100|250""",
    "end": """.|.|!|!!|...|?|""",
}
_INSULT_SHARES, _INSULT_NOISE = [0.74, 0.26], 0.1


def _draw_insults(rows: int, random: np.random.RandomState) -> Drawn:
    label = exact_shares(_INSULT_SHARES, rows, random)
    shown = mislabel(label, 2, _INSULT_NOISE, random)
    single = generator(random)
    grammar = Grammar(_COMMENTS, single)
    comments = dict[str, None]()  # all different, since their text is their id; a set that keeps its order
    for insult in shown:
        before = len(comments)
        while len(comments) == before:
            comments[f'"{_comment(grammar, single, insult)}"'] = None
    table = pd.DataFrame({"Insult": label, "Date": [_date(single) for _ in label], "Comment": list(comments)})
    ceiling = posterior(shown, label, 2, _INSULT_NOISE)[:, 1]
    return Drawn(table, pd.DataFrame({"Insult": label}), pd.DataFrame({"Insult": ceiling}))


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


_TWEETS = {
    "before": """just got back from the {place}|on my way to the {place} with {who}|watching the {show} with {who}|
        {who} says hi from the {place}|it is {time} and I am at the {place}|so about the {show} last night|
        had {food} for breakfast|still at work until {time}|my {object} is at the {place}|rain since {time} here|
        {handle} did you see the {show}|{handle} I heard about your {object}|reading about the {show}|""",
    "after": """and now {food} with {who}|back to the {place} at {time}|see you at {time}|off to the {place} now|
        {link}|{handle}|anyway, {food} at {time}|with {who} at the {place}|then the {show} at {time}|
        because of the {object}|#{place}|next stop {place}|""",
    "positive": """{very} {nice}|I {love} {it}|{nice} {object}|thank you {very} much|{it} was {very} {nice}|
        {love} {it}|
        {happy} about {it}|feeling {very} {happy}|the {nice}est day|so {happy}|can't wait for {it}|
        {nice} and {happy}""",
    "negative": """{very} {awful}|I {hate} {it}|{awful} {object}|sorry to hear that|{it} was {very} {awful}|
        {hate} {it}|
        {sad} about {it}|feeling {very} {sad}|the {awful} {object} broke|so {sad}|can't stand {it}|
        {awful} and {sad}""",
    "neutral": """{it} starts at {time}|I have {it} on my {object}|{who} has {it} too|looking for {it} at the {place}|
        the {object} is new|who else has {it}|{it} is on again|{food} or {food}|we go by {object}""",
    "nice": """great|cool|awesome|lovely|sweet|amazing|fun|nice|perfect|beautiful|delicious|brilliant|good|fab""",
    "awful": """bad|awful|terrible|horrible|lame|boring|ugly|broken|nasty|rotten|annoying|stupid|painful|gross""",
    "love": """love|adore|enjoy|loved|really like|enjoyed""",
    "hate": """hate|dislike|miss|hated|really miss|regret""",
    "happy": """happy|excited|glad|proud|thrilled|grateful|lucky""",
    "sad": """sad|tired|sick|lonely|worried|angry|upset|bored""",
    "very": """so|very|really|sooo|totally|pretty|just""",
    "it": """it|this|the {show}|the {place}|{food}|my {object}|that {object}""",
    "show": """game|concert|movie|finale|episode|race|festival|musical|quiz|match""",
    "place": """beach|office|library|gym|airport|park|garden|station|mall|museum|school""",
    "object": """phone|car|laptop|bike|camera|guitar|dress|couch|printer|cat|haircut|coffee maker""",
    "food": """pancakes|pizza|sushi|noodles|ice cream|soup|tacos|salad|pie|curry""",
    "who": """mum|my sister|the boys|Anna|grandpa|my boss|two friends|Tom|the neighbours|my dog""",
    "time": """6am|noon|8|9:30|midnight|7pm|ten|half past four""",
    "handle": """@sunnyside|@mr_green|@kayak77|@lunchbox|@_violet|@bluebird3|@oldtimer""",
    "link": """http://pics.example/{time}a|http://short.example/x{time}""",
    "stop": """ | |, |. |... |! | - |!! """,
    "end": """|.|!|!!| :)| :(|...|  |""",
}
_SENTIMENTS = ["neutral", "positive", "negative"]


def _draw_tweets(rows: int, random: np.random.RandomState) -> Drawn:
    sentiment = exact_shares([0.4, 0.31, 0.29], rows, random)
    single = generator(random)
    grammar = Grammar(_TWEETS, single)
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


# Three writers of one language. Each word is a favourite of one of the three: by its place in the list, modulo 3.
_GOTHIC = {
    "sentence": """{time}, {clause}{link}{clause}.|{clause}{link}{clause}; {short}.|
        {clause}, {aside}, {link2} {clause}.|
        {time}, {clause}.|{clause}: {short}.|"{short}," {said} the {person}, "{link2} {clause}."|
        {clause}{link}{clause}.|
        {exclaim}! {clause}{link}{clause}.|{time} {clause}, {link2} {clause} -- {short}.""",
    "clause": """the {adj} {noun} {verb} {where}|I {felt} a {adj} {feeling}|my {adj} {noun} {verb} {where}|
        the {person} {felt} the {feeling} of the {noun}|{where} {verb} a {adj} {noun}|
        a {feeling} of {adj} {feeling} {verb} {where}|we {felt} that the {noun} {verb}|
        no {person} {felt} such {feeling} {where}|his {noun} {verb} with {adj} {feeling}""",
    "short": """I {felt} no {feeling}|it {verb}|the {noun} {verb} again|there was no {noun}|all was {adj}|
        none {felt} it|it was the {noun}|so {adj} was the {feeling}|we were {adj}""",
    "time": """At midnight|In that {adj} hour|Upon the third evening|Long ago|Towards dawn|When autumn came|At length|
        Before the {noun}|During the {adj} winter""",
    "link": """, and |, while |; yet |, for |, until |; but |, though |, as |; and """,
    "link2": """indeed|perhaps|alas|in truth|somehow|dearly|it may be|as they whispered|once more""",
    "aside": """I confess|it was said|my friend|to speak plainly|as the old books tell|dear sister|beyond all doubt|
        so the sailors hinted|as I remember""",
    "exclaim": """Ah|Hark|Alas|No|See|Oh|Strange|Listen|Heaven""",
    "said": """said|murmured|cried|replied|muttered|sighed|answered|gasped|wept""",
    "adj": """singular|hideous|gentle|crimson|nameless|beloved|ingenious|ancient|sorrowful|peculiar|fungous|lonely|
        feverish|cyclopean|noble|ghastly|decaying|tender|precise|unwholesome|mournful|velvet|eldritch|sublime|
        trembling|blasphemous|faithful|minute|forgotten|wretched""",
    "noun": """chamber|ruin|cottage|pendulum|cavern|mountain|portrait|idol|garden|casket|shore|lake|raven|gulf|child|
        mirror|tower|heart|clock|marsh|letter|cellar|city|forest|wall|temple|glacier|lamp|vault|cradle|lantern|abyss|
        meadow|curtain|statue|river""",
    "person": """physician|professor|mother|stranger|fisherman|sister|detective|cultist|orphan|baron|sailor|friend|
        prisoner|keeper|traveller""",
    "feeling": """terror|dread|grief|curiosity|loathing|hope|reason|madness|despair|melancholy|awe|love|vengeance|
        horror|pity|guilt|stench|joy|delirium|cold|remorse""",
    "verb": """trembled|loomed|wept|ticked|crawled|slept|vanished|stank|smiled|fell|gaped|departed|glared|whispered|
        returned|throbbed|festered|bloomed|swung|echoed|mourned""",
    "felt": """perceived|glimpsed|felt|observed|dreamt|cherished|calculated|feared|remembered|examined|sensed|
        lamented""",
    "where": """upon the floor|beneath the hills|beside the lake|within the wall|under strange stars|in the valley|
        behind the curtain|among the tombs|at my side|through the keyhole|out of the sea|in my native town""",
}
_AUTHORS = ["EAP", "HPL", "MWS"]
_SPOOKY_NOISE, _FONDNESS = 0.06, 3.0


def _draw_spooky(rows: int, random: np.random.RandomState) -> Drawn:
    author = exact_shares([0.4035, 0.2878, 0.3087], rows, random)
    shown = mislabel(author, 3, _SPOOKY_NOISE, random)
    single = generator(random)
    writers = [Grammar(_GOTHIC, single, _fond_of(number)) for number in range(3)]
    texts = [writers[number].sentence("sentence") for number in shown]
    table = pd.DataFrame({"text": texts, "author": np.array(_AUTHORS)[author]})
    targets = pd.DataFrame(np.eye(3, dtype=int)[author], columns=_AUTHORS)
    return Drawn(table, targets, pd.DataFrame(posterior(shown, author, 3, _SPOOKY_NOISE), columns=_AUTHORS))


def _fond_of(author: int) -> Callable[[int], float]:
    return lambda i: _FONDNESS if i % 3 == author else 1.0


# By CPC class: modifiers, and things that a patent calls by several names, which may mean other things elsewhere.
_PATENTS = {
    "A61": (
        "surgical|dental|sterile|implantable|disposable|flexible|bone|vascular|optical|movable",
        "cannula,catheter,tube|splint,brace,plate|needle,lancet,tip|dressing,pad,bandage|capsule,tablet,cell|"
        "lens,eyepiece,window",
    ),
    "B65": (
        "disposable|flexible|stackable|sealed|corrugated|movable|tubular|rotating|folding|thermal",
        "carton,case,box|conveyor,belt,line|lid,closure,head|pallet,platform,bed|wrapper,film,web|spool,reel,core",
    ),
    "C12": (
        "sterile|fermented|microbial|liquid|soluble|recombinant|thermal|active|filtered|mixed",
        "cell,microbe,organism|broth,medium,solution|enzyme,catalyst,agent|vessel,reactor,tank|culture,colony,bed|"
        "membrane,filter,film",
    ),
    "E04": (
        "folding|corrugated|structural|vertical|prefabricated|insulated|tubular|movable|anchored|mixed",
        "beam,girder,member|panel,plate,sheet|scaffold,platform,stage|footing,base,bed|window,opening,aperture|"
        "mortar,cement,binder",
    ),
    "F16": (
        "rotating|hydraulic|flexible|sealed|tubular|axial|threaded|elastic|thermal|vertical",
        "shaft,spindle,core|gasket,seal,pad|coupling,clutch,joint|bolt,screw,fastener|valve,tap,gate|belt,chain,web",
    ),
    "G06": (
        "optical|distributed|encrypted|digital|virtual|active|mixed|neural|vertical|structural",
        "table,array,cell|processor,core,engine|network,web,mesh|record,entry,field|gate,circuit,switch|"
        "window,frame,pane",
    ),
    "H01": (
        "thermal|insulated|liquid|active|sealed|axial|conductive|magnetic|neural|anchored",
        "battery,cell,accumulator|terminal,tip,contact|winding,coil,reel|electrode,plate,grid|fuse,switch,breaker|"
        "antenna,array,aerial",
    ),
    "H04": (
        "encrypted|digital|optical|distributed|virtual|rotating|liquid|conductive|filtered|movable",
        "signal,wave,carrier|channel,line,link|receiver,terminal,handset|cell,zone,sector|packet,frame,block|"
        "speaker,horn,driver",
    ),
}
_PATENT_SHARES, _PATENT_NOISE = [0.2, 0.31, 0.3, 0.14, 0.05], 0.12


def _draw_patents(rows: int, random: np.random.RandomState) -> Drawn:
    level = exact_shares(_PATENT_SHARES, rows, random)
    single = generator(random)
    classes = {
        code: (modifiers.split("|"), [thing.split(",") for thing in things.split("|")])
        for code, (modifiers, things) in _PATENTS.items()
    }
    anchors = []
    for _ in range(max(8, rows // 12)):
        code = single.choice(list(classes))
        modifiers, things = classes[code]
        number = single.randrange(len(things))
        anchors.append((code, single.choice(modifiers), number, single.choice(things[number])))
    drawn = []
    for similarity in level:
        code, modifier, number, name = anchor = single.choice(anchors)
        drawn.append((f"{modifier} {name}", _similar(classes, anchor, similarity, single), code))
    # A rater sometimes is one step off.
    steps = np.where(random.random_sample(rows) < _PATENT_NOISE, random.choice([-1, 1], rows), 0)
    score = pd.DataFrame({"score": (level + steps).clip(0, 4) / 4})
    table = pd.DataFrame(drawn, columns=["anchor", "target", "context"])
    return Drawn(table.join(score), score, pd.DataFrame({"score": level / 4}))


def _similar(classes: dict, anchor: tuple[str, str, int, str], similarity: int, random: Random) -> str:
    """A phrase as similar to the anchor as `similarity` in quarters says."""
    code, modifier, number, name = anchor
    modifiers, things = classes[code]
    synonym = random.choice([word for word in things[number] if word != name])
    other_modifier = random.choice([word for word in modifiers if word != modifier])
    related = random.choice(things[(number + random.randint(1, len(things) - 1)) % len(things)])
    foreign_modifiers, foreign_things = classes[random.choice([other for other in classes if other != code])]
    foreign = random.choice(random.choice(foreign_things))
    phrases = [
        [f"{modifier} {foreign}", f"{name} {foreign}", f"{random.choice(foreign_modifiers)} {foreign}"],
        [f"{other_modifier} {related}", f"{related}", f"{related} assembly", f"{modifier} {related} housing"],
        [f"{other_modifier} {name}", f"{name}", f"{other_modifier} {synonym}", f"{synonym} assembly"],
        [f"{modifier} {synonym}", f"{synonym} of {modifier} type", f"{modifier} {synonym} assembly"],
        [f"{modifier} {name}s", f"{name} of {modifier} type", f"{modifier} type {name}"],
    ]
    return random.choice(phrases[similarity])


SHORT_TEXT_MIRRORS = {
    "detecting-insults-in-social-commentary": Mirror(
        title="Detecting Insults in Social Commentary",
        overview=(
            "People comment on news and on each other. Say for every comment how likely it is to insult somebody who "
            "takes part in the conversation. Rude words about others, about things or about oneself are no insult in "
            "this sense, and insults come misspelled."
        ),
        evaluation=(
            "Submissions are scored by the area under the ROC curve: the chance that an insult is ranked above a "
            "comment that is none. Higher is better; 1 is perfect, and a constant scores 0.5. Every prediction must "
            "be a probability in [0, 1]. Rows are matched by `Comment`: copy it unchanged."
        ),
        data=(
            "- `train.csv`: {train} comments with their labels.\n"
            "- `test.csv`: {test} comments to predict.\n"
            "- `sample_submission_null.csv`: a submission in the right format.\n\n"
            "- `Insult`: 1 for an insult, 0 for none (train only).\n"
            "- `Date`: when the comment was made, as `YYYYMMDDhhmmssZ` in UTC; empty where it is not known.\n"
            "- `Comment`: the text, in quotes, with escapes such as `\\n` for the end of a line."
        ),
        rows=1000,
        draw=_draw_insults,
        train_only=("Insult",),
        sample={"Insult": 0},
        adapt=_adapt_insults,
    ),
    "tweet-sentiment-extraction": Mirror(
        title="Tweet Sentiment Extraction",
        overview=(
            "The sentiment of each tweet is known: positive, negative or neutral. Say which part of the tweet carries "
            "it. In neutral tweets that is mostly all of the text, in others a short phrase."
        ),
        evaluation=(
            "Submissions are scored by the word-level Jaccard similarity: the number of words that the predicted and "
            "the marked text share, divided by the number of words in either, in lower case, averaged over the "
            "tweets. Higher is better; 1 is perfect. Never predict an empty text."
        ),
        data=(
            "- `train.csv`: {train} tweets with what was marked.\n"
            "- `test.csv`: {test} tweets to predict.\n"
            "- `sample_submission.csv`: a submission in the right format.\n\n"
            "- `textID`: the tweet.\n"
            "- `text`: the tweet's text.\n"
            "- `selected_text`: the part that carries the sentiment (train only).\n"
            "- `sentiment`: positive, negative or neutral."
        ),
        rows=1000,
        draw=_draw_tweets,
        train_only=("selected_text",),
        sample={"selected_text": ""},
        ids=hex_ids(10),
    ),
    "us-patent-phrase-to-phrase-matching": Mirror(
        title="U.S. Patent Phrase to Phrase Matching",
        overview=(
            "Patents call the same thing by many names. Say how similar in meaning a target phrase is to an anchor "
            "phrase, within a technical field: what is a synonym in one field is something else in another, and a "
            "shared word does not always mean a shared meaning. The same anchors are in both files."
        ),
        evaluation=(
            "Submissions are scored by Pearson's correlation between the predicted and the true similarity. Higher is "
            "better; 1 is perfect. A constant prediction, such as the sample submission's, has no score and is "
            "invalid."
        ),
        data=(
            "- `train.csv`: {train} pairs with their similarity.\n"
            "- `test.csv`: {test} pairs to predict.\n"
            "- `sample_submission.csv`: the format of a submission.\n\n"
            "- `id`: the pair.\n"
            "- `anchor`, `target`: the two phrases.\n"
            "- `context`: the field, a class of the Cooperative Patent Classification, such as H01.\n"
            "- `score`: 1 for the same meaning, 0.75 for a synonym, 0.5 for something wider, narrower or alike, 0.25 "
            "for something related, 0 for nothing in common (train only)."
        ),
        rows=1200,
        draw=_draw_patents,
        train_only=("score",),
        sample={"score": 0},
        ids=hex_ids(16),
    ),
    "spooky-author-identification": Mirror(
        title="Spooky Author Identification",
        overview=(
            "Three writers of gothic tales, EAP, HPL and MWS, share a language, but each has favourite words. Say for "
            "every sentence how likely each of them is to have written it. Some sentences are imitations, so a good "
            "solution is never quite sure."
        ),
        evaluation=(
            "Submissions are scored by the multi-class logarithmic loss: the mean, over the sentences, of -log(p), "
            "where p is the probability given to the true author. Lower is better; 0 is perfect, and the sample "
            "submission scores about 1.09. Probabilities of 0 are clipped, so one confident mistake costs as much as "
            "36. Every probability must lie in [0, 1], and those of a sentence must sum to 1."
        ),
        data=(
            "- `train.csv`: {train} sentences with their authors.\n"
            "- `test.csv`: {test} sentences to predict.\n"
            "- `sample_submission.csv`: a submission in the right format.\n\n"
            "- `id`: the sentence.\n"
            "- `text`: the sentence.\n"
            "- `author`: EAP, HPL or MWS (train only)."
        ),
        rows=1600,
        draw=_draw_spooky,
        train_only=("author",),
        sample={"EAP": 0.403493538995863, "HPL": 0.287808366106543, "MWS": 0.308698094897594},
        ids=integer_ids(10_000, 100_000, prefix="id"),
    ),
}
