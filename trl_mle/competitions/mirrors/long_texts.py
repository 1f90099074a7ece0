"""Mirrors of the competitions with long texts: essays, requests, conversations."""

import io
import json
import zipfile
from collections.abc import Callable
from random import Random

import numpy as np
import pandas as pd

from trl_mle.competitions.mirrors.mirror import Drawn, Grammar, Mirror, cut, generator, hex_ids, integer_ids, sigmoid


# Of every two words the second is the less common one: it is the better writers' favourite.
_ESSAY = {
    "claim": """{people} {should} {do} {things}|the {good} way to {do} {things} is to {do} {things}|
        {things} are {good} for {people}|{people} {think} that {things} are {bad}|
        {people} {do} {things} {when}|it is {good} to {do} {things} {when}""",
    "reason": """because {things} {help} {people}|because {people} {think} about {things}|so {people} {do} {things}|
        but {things} can be {bad} for {people}|and this {help} {people} {when}|since {things} are {good}|""",
    "people": """people|citizens|students|learners|kids|adolescents|teachers|educators|we|communities|drivers|
        commuters|
        scientists|researchers|my friends|my contemporaries|parents|guardians""",
    "things": """cars|automobiles|phones|devices|rules|regulations|ideas|arguments|jobs|occupations|tests|examinations|
        trips|expeditions|problems|obstacles|votes|elections|pictures|expressions|cities|municipalities""",
    "do": """use|utilize|help|support|change|transform|make|construct|show|demonstrate|want|pursue|get|acquire|
        stop|prohibit|like|appreciate|see|observe""",
    "help": """help|assist|change|influence|hurt|undermine|move|motivate|keep|preserve""",
    "should": """should|ought to|can|may well|have to|are obliged to|will|are likely to""",
    "think": """think|maintain|say|emphasize|know|recognize|feel|acknowledge""",
    "good": """good|beneficial|nice|advantageous|big|significant|smart|judicious|fun|rewarding""",
    "bad": """bad|detrimental|hard|demanding|wrong|misguided|sad|regrettable""",
    "when": """every day|on a daily basis|at school|in an educational setting|now|in contemporary society|
        a lot|to a considerable extent|at home|within their households""",
    "connective": """However, |For example, |In addition, |On the other hand, |As a result, |Furthermore, |
        According to the article, |In conclusion, |Therefore, |First of all, """,
}
_ESSAY_SHARES = [0.07, 0.27, 0.36, 0.22, 0.06, 0.02]
_ESSAY_NOISE = 0.4


def _draw_essays(rows: int, random: np.random.RandomState) -> Drawn:
    # A writer's four skills go together, but not quite, and the raters see all of them.
    skills = 0.6 * random.normal(size=(rows, 1)) + 0.8 * random.normal(size=(rows, 4))
    quality = skills @ [0.35, 0.25, 0.25, 0.25]
    rated = quality + _ESSAY_NOISE * quality.std() * random.normal(size=rows)
    single = generator(random)
    levels = [Grammar(_ESSAY, single, _less_common(share)) for share in (0.1, 0.3, 0.5, 0.7, 0.9)]
    texts = [_essay(levels, single, *row) for row in skills.tolist()]
    score = pd.DataFrame({"score": 1 + cut(rated, _ESSAY_SHARES)})
    ceiling = pd.DataFrame({"score": 1 + cut(quality, _ESSAY_SHARES)})
    return Drawn(pd.DataFrame({"full_text": texts}).join(score), score, ceiling)


def _less_common(share: float) -> Callable[[int], float]:
    """Weights of a writer for whom this share of the words is less common ones."""
    return lambda i: share if i % 2 else 1 - share


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
    return random.choice(
        [
            word[:at] + word[at + 1 :],
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + word[at] + word[at:],
        ]
    )


_REQUEST = {
    "title": """[REQUEST] {place}, {title_reason}|[Request] {title_reason} in {place}|[REQUEST] {title_reason}""",
    "title_reason": """hungry {person} would love a pizza|pizza for a {person}|rough week, could use a pizza|
        broke until {day}|it has been a long month|a pizza would make my {day}|first time here""",
    "need": """I lost my job {when} and the rent took all that was left|my paycheck does not come before {day}|
        my car broke down {when} and the repair ate my savings|the hospital bill came {when}|
        my hours were cut {when}|we have been on rice and {food} since {day}|unemployment has not started yet""",
    "family": """my two kids are tired of {food}|my wife is pregnant and craves pizza|I feed my little brother too|
        my daughter turns six on {day}|my mother moved in with us {when}|my husband works nights""",
    "craving": """I just want a pizza|my friends and I are having a party on {day}|we are watching the game|
        I am bored and hungry|I was drinking with my {person} friends|there is only {food} in the fridge|
        I forgot to go shopping|I do not feel like cooking {food}""",
    "return": """I will pay it forward on {day}|I would gladly return the favor once I am paid|
        I promise to buy one for somebody else {when_next}|I can draw you a picture in return""",
    "thanks": """thank you for reading|thanks in advance|any help would mean a lot|bless you all|
        thank you, whatever happens|this place is a kind one""",
    "evidence": """here is a picture of my fridge: http://pics.example/{code}|
        proof of the bill: http://pics.example/{code}|photo: http://pics.example/{code}""",
    "filler": """I am a {person} in {place}|I found this forum {when}|the nearest pizza place is open late|
        I like {topping} best|any kind will do, {topping} would be great|I never did this before|
        it is cold in {place}|I can send my address in a message|we moved to {place} {when}""",
    "person": """student|nurse|cook|waiter|painter|father|mother|driver|soldier|musician|carpenter|clerk""",
    "place": """Ohio|Texas|Toronto|Leeds|Oregon|Maine|Nevada|Glasgow|Florida|Kansas|Montreal|Utah""",
    "day": """Friday|Monday|the 15th|next week|Thursday|the end of the month|Sunday""",
    "when": """last week|yesterday|in May|two weeks ago|last month|on Tuesday|this morning""",
    "when_next": """next week|as soon as I can|next month|when I work again""",
    "food": """ramen|beans|cereal|toast|oatmeal|soup|crackers|pasta""",
    "topping": """mushroom|pepperoni|cheese|pineapple|veggie|bacon|olive""",
    "code": """a7Kx2|pQ91z|mm3Ty|x0fLw|k88Rb|t5Nvq""",
}
_SUBREDDITS = [
    "AskReddit", "pics", "funny", "gaming", "aww", "politics", "Music", "science", "movies", "books", "cooking", "DIY", "trees", "soccer", "guitar",
    "personalfinance", "Fitness", "bicycling", "comics", "news",
]  # fmt: skip
_PIZZA_NOISE = 0.8


def _draw_pizza(rows: int, random: np.random.RandomState) -> Drawn:
    single = generator(random)
    grammar = Grammar(_REQUEST, single)
    # What a request says, and how much that moves a giver.
    moves = {"need": 1.3, "family": 0.8, "craving": -1.6, "return": 1.2, "thanks": 0.5, "evidence": 1.5}
    chance = {"need": 0.45, "family": 0.3, "craving": 0.45, "return": 0.3, "thanks": 0.5, "evidence": 0.15}
    said = [[part for part in moves if single.random() < chance[part]] for _ in range(rows)]
    texts = [_request(grammar, single, parts) for parts in said]
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
    logits = np.array([sum(moves[part] for part in parts) for parts in said])
    logits = (
        logits + 0.6 * np.log(words / 40) + 0.35 * np.log1p(karma) / 2 + 0.8 * (in_forum > 0) + 0.3 * np.log1p(age) / 2
    )
    received = cut(logits + _PIZZA_NOISE * random.logistic(size=rows), [0.754, 0.246]).astype(bool)

    later = random.uniform(100, 900, rows)  # days from the request to when the data was collected
    more = random.lognormal(3, 1.2, rows).astype(int)
    table = pd.DataFrame(
        {
            "giver_username_if_known": "N/A",
            "number_of_downvotes_of_request_at_retrieval": random.poisson(2.5, rows),
            "number_of_upvotes_of_request_at_retrieval": random.poisson(4 + 3 * received),
            "post_was_edited": random.random_sample(rows) < 0.08 + 0.12 * received,
            "request_number_of_comments_at_retrieval": random.poisson(2 + 3 * received),
            "request_text": texts,
            "request_text_edit_aware": texts,
            "request_title": titles,
            "requester_account_age_in_days_at_request": age.round(6),
            "requester_account_age_in_days_at_retrieval": (age + later).round(6),
            "requester_days_since_first_post_on_raop_at_request": first_seen.round(6),
            "requester_days_since_first_post_on_raop_at_retrieval": (first_seen + later).round(6),
            "requester_number_of_comments_at_request": comments,
            "requester_number_of_comments_at_retrieval": comments + more,
            "requester_number_of_comments_in_raop_at_request": in_forum,
            "requester_number_of_comments_in_raop_at_retrieval": in_forum + random.poisson(0.5 + 2 * received),
            "requester_number_of_posts_at_request": posts,
            "requester_number_of_posts_at_retrieval": posts + more // 4,
            "requester_number_of_posts_on_raop_at_request": (in_forum > 3).astype(int),
            "requester_number_of_posts_on_raop_at_retrieval": 1 + (in_forum > 3),
            "requester_number_of_subreddits_at_request": [len(names) for names in subreddits],
            "requester_received_pizza": received,
            "requester_subreddits_at_request": subreddits,
            "requester_upvotes_minus_downvotes_at_request": karma,
            "requester_upvotes_minus_downvotes_at_retrieval": karma + 3 * more,
            "requester_upvotes_plus_downvotes_at_request": votes.astype(int),
            "requester_upvotes_plus_downvotes_at_retrieval": votes.astype(int) + 5 * more,
            "requester_user_flair": [single.choice(["shroom", "PIF"]) if given else None for given in received],
            "requester_username": [
                f"{single.choice(_SUBREDDITS).lower()}_{single.randrange(10**6)}" for _ in range(rows)
            ],
            "unix_timestamp_of_request": time.astype(float),
            "unix_timestamp_of_request_utc": time - 3600.0,
        }
    )
    target = pd.DataFrame({"requester_received_pizza": received.astype(int)})
    middle = np.quantile(logits, 0.754)
    return Drawn(table, target, pd.DataFrame({"requester_received_pizza": sigmoid((logits - middle) / _PIZZA_NOISE)}))


def _request(grammar: Grammar, random: Random, parts: list[str]) -> str:
    parts = parts + ["filler"] * random.randint(1, 5)
    random.shuffle(parts)
    return " ".join(grammar.sentence(part) + "." for part in parts).replace(". I ", ".\n\nI ", 1)


def _pizza_ids(train: int, test: int, random: np.random.RandomState) -> list[str]:
    return [f"t3_{np.base_repr(number, 36).lower()}" for number in integer_ids(36**4, 36**5)(train, test, random)]


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


_CHAT = {
    "ask": """How do I {task} TOPIC?|Explain TOPIC to a {listener}.|What is the history of TOPIC?|
        Write {form} about TOPIC.|Why do people like TOPIC?|Give me {number} tips to {task} TOPIC.|
        Compare TOPIC and {topic}.|Is TOPIC worth the money?""",
    "follow": """Can you make it shorter?|Now write it for a {listener}.|Are you sure?|What does it cost?|
        Add {number} more points.|Thanks! How does a {listener} {task} it?""",
    "fact": """people first described TOPIC in the {century} century|most experts {agree} that TOPIC can be {worth}|
        you can {task} it with {tool} in {number} steps|with TOPIC it is all about {tool} and some {virtue}|
        a {listener} will find it {worth}|the price of TOPIC depends on {tool}|
        with {virtue} and {tool} you will {task} TOPIC""",
    "empty": """that is a great question|there are many views on this|it depends on many things|
        as we know, {virtue} matters in life|in general, everything has two sides|this topic is very interesting|
        I hope this helps|feel free to ask more""",
    "refusal": """I'm sorry, but I cannot help with that|as a language model I have no opinion on this|
        I am unable to assist with this request""",
    "topic": """sourdough bread|electric bicycles|the Roman army|jazz guitar|tax returns|tomato plants|chess openings|
        solar panels|black holes|mountain hiking|sign language|watercolor painting|old typewriters|bee keeping|
        marathon training|sailing knots|road signs|ceramic glazes|night trains|folk dances|word puzzles|
        wind turbines""",
    "task": """start with|improve|repair|understand|teach|photograph|choose|plan|sell|enjoy""",
    "listener": """child|beginner|teacher|retired engineer|tourist|musician|busy parent""",
    "form": """a poem|an email|a short story|a speech|a summary|a dialogue""",
    "number": """three|five|seven|ten|twelve""",
    "agree": """agree|find|say|expect""",
    "century": """12th|16th|18th|19th|20th""",
    "worth": """useful|demanding|rewarding|harmless|costly|charming""",
    "tool": """a small budget|a good book|a sharp knife|an old map|free software|a notebook|a patient friend""",
    "virtue": """patience|care|practice|curiosity|luck|discipline""",
}
_MODELS = {  # what is thought of each, beyond what it writes
    "aster-7b-chat": -0.5, "aster-70b-chat": 0.3, "borealis-1": 0.5, "borealis-1-mini": -0.1, "cumulus-13b": -0.4,
    "delta-instruct-v2": 0.1, "ember-34b": 0.0, "fjord-large": 0.4, "gamma-lite": -0.6, "harbor-8x7b": 0.2,
}  # fmt: skip
_WINNERS = ["winner_model_a", "winner_model_b", "winner_tie"]


def _draw_chats(rows: int, random: np.random.RandomState) -> Drawn:
    single = generator(random)
    grammar = Grammar(_CHAT, single)
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
    "learning-agency-lab-automated-essay-scoring-2": Mirror(
        title="Learning Agency Lab - Automated Essay Scoring 2.0",
        overview=(
            "Students wrote essays, and teachers scored them from 1 to 6. Score the essays of the test set as the "
            "teachers would. They look at how much a student has to say, at spelling, at the choice of words and at "
            "how sentences and paragraphs hang together."
        ),
        evaluation=(
            "Submissions are scored by the quadratic weighted kappa: how far predicted and given scores agree beyond "
            "chance, where a miss by two points counts as much as four misses by one. Higher is better; 1 is perfect, "
            "and a constant scores 0. Every score must be a whole number."
        ),
        data=(
            "- `train.csv`: {train} essays with their scores.\n"
            "- `test.csv`: {test} essays to predict.\n"
            "- `sample_submission.csv`: a submission in the right format.\n\n"
            "- `essay_id`: the essay.\n"
            "- `full_text`: its text.\n"
            "- `score`: 1 (worst) to 6 (train only)."
        ),
        rows=800,
        draw=_draw_essays,
        train_only=("score",),
        sample={"score": 3},
        ids=hex_ids(7),
    ),
    "random-acts-of-pizza": Mirror(
        title="Random Acts of Pizza",
        overview=(
            "In a forum people ask strangers to send them a pizza. Say for every request how likely it is to be "
            "fulfilled, from what the request says and from what is known about who makes it. The training set "
            "knows more than the test set: what became known only after the request is not there."
        ),
        evaluation=(
            "Submissions are scored by the area under the ROC curve: the chance that a request that got a pizza is "
            "ranked above one that got none. Higher is better; 1 is perfect, and a constant scores 0.5. Every "
            "prediction must be a probability in [0, 1]."
        ),
        data=(
            "- `train.json`: a list of {train} requests with `requester_received_pizza`. `train.zip`: the same.\n"
            "- `test.json`: a list of {test} requests to predict. `test.zip`: the same.\n"
            "- `sampleSubmission.csv`: a submission in the right format.\n\n"
            "- `request_id`, `request_title`, `request_text_edit_aware`: the request.\n"
            "- `requester_..._at_request`: the requester's account when the request was made: its age in days, "
            "comments, posts, subreddits (`requester_subreddits_at_request` is a list), votes; `raop` is the forum.\n"
            "- `unix_timestamp_of_request`: in seconds, local time; `..._utc`: in UTC.\n"
            "- Train only: `request_text`, everything `..._at_retrieval`, `post_was_edited`, `requester_user_flair`."
        ),
        rows=1200,
        draw=_draw_pizza,
        train_only=(
            "number_of_downvotes_of_request_at_retrieval",
            "number_of_upvotes_of_request_at_retrieval",
            "post_was_edited",
            "request_number_of_comments_at_retrieval",
            "request_text",
            "requester_account_age_in_days_at_retrieval",
            "requester_days_since_first_post_on_raop_at_retrieval",
            "requester_number_of_comments_at_retrieval",
            "requester_number_of_comments_in_raop_at_retrieval",
            "requester_number_of_posts_at_retrieval",
            "requester_number_of_posts_on_raop_at_retrieval",
            "requester_received_pizza",
            "requester_upvotes_minus_downvotes_at_retrieval",
            "requester_upvotes_plus_downvotes_at_retrieval",
            "requester_user_flair",
        ),
        sample={"requester_received_pizza": 0},
        ids=_pizza_ids,
        adapt=_adapt_pizza,
    ),
    "lmsys-chatbot-arena": Mirror(
        title="LMSYS - Chatbot Arena Human Preference Predictions",
        overview=(
            "Two chatbots answer the same prompt, and a person says which answer is better, or that it is a tie. "
            "Predict the three probabilities from the conversation. People like answers that say much about what was "
            "asked; they do not like empty words and refusals, and they often disagree."
        ),
        evaluation=(
            "Submissions are scored by the multi-class logarithmic loss: the mean, over the conversations, of "
            "-log(p), where p is the probability given to what happened. Lower is better; 0 is perfect, and a uniform "
            "guess scores 1.099. Every probability must lie in [0, 1], and those of a conversation must sum to 1 to "
            "six decimals."
        ),
        data=(
            "- `train.csv`: {train} conversations with their winners.\n"
            "- `test.csv`: {test} conversations to predict.\n"
            "- `sample_submission.csv`: a submission in the right format.\n\n"
            "- `id`: the conversation.\n"
            "- `prompt`, `response_a`, `response_b`: JSON lists of strings, one for each turn.\n"
            "- `model_a`, `model_b`: the chatbots (train only).\n"
            "- `winner_model_a`, `winner_model_b`, `winner_tie`: one of them is 1, the others 0 (train only)."
        ),
        rows=1200,
        draw=_draw_chats,
        train_only=("model_a", "model_b", *_WINNERS),
        sample=dict.fromkeys(_WINNERS, 1 / 3),
        ids=integer_ids(30_000, 2**32),
    ),
}
