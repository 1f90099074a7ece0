"""An executor that executes nothing; subclasses decide the results."""

from trl_mle.execution import Executor, Limits


class FakeExecutor(Executor):
    """A back end without `submit`, which never makes its caller wait."""

    limits = Limits()
    slots = None
    description = "programs are not executed"

    def check(self, competition):
        pass

    def longest_s(self, programs):
        return 0.0

    def close(self):
        pass
