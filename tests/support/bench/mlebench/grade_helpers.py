from mlebench.utils import import_fn


class InvalidSubmissionError(Exception):
    pass


class Grader:
    def __init__(self, name, grade_fn):
        self.name = name
        self.grade_fn = import_fn(grade_fn)

    def is_lower_better(self, leaderboard):
        return bool(leaderboard["score"].iloc[0] < leaderboard["score"].iloc[-1])
