import os
import time

from mlebench.grade_helpers import InvalidSubmissionError


def grade(submission, answers):
    """Mean average precision at 2. Some submissions of tests break it in the ways in which graders break."""
    print("graders print, too")
    if len(submission) != len(answers):
        raise InvalidSubmissionError(f"the submission has {len(submission)} rows,\nnot {len(answers)}")
    submission.sort_values("id", inplace=True)
    answers.sort_values("id", inplace=True)
    assert submission["id"].tolist() == answers["id"].tolist(), "ids differ"
    if "CRASH" in set(submission["kinds"]):
        os._exit(3)
    if "HANG" in set(submission["kinds"]):
        time.sleep(1000)
    if "NAN" in set(submission["kinds"]):
        return float("nan")
    scores = []
    for guesses, kind in zip(submission["kinds"], answers["kinds"], strict=True):
        guessed = guesses.split()[:2]
        scores.append(1 / (1 + guessed.index(kind)) if kind in guessed else 0)
    answers.drop(answers.index, inplace=True)
    return sum(scores) / len(scores)
