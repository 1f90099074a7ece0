"""An executor that executes nothing; what a program comes to is up to who inherits from it."""

from trl_mle.execution import Executor, Limits


class FakeExecutor(Executor):
    """Has all that a back end has but `submit`, and never makes anybody wait."""

    limits = Limits()
    slots = None
    tells_start = False
    description = "programs are not executed"

    def check(self, competition):
        pass

    def longest_s(self, programs):
        return 0.0

    def close(self):
        pass
