"""
Does the test suite find faults? Puts each of some forty faults into a copy of a commit, and runs the tests of that room
until the first failure.

    python benchmarks/faults.py [--commit HEAD] [--only duration grader] [--output faults.json]

A fault is a piece of source that occurs once in its file, and its replacement.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from trl_mle.showing import PlainConsole


ROOT = Path(__file__).parents[1]


class Fault(NamedTuple):
    room: str
    meaning: str
    file: str  # below trl_mle/
    old: str
    new: str


FAULTS = [
    Fault(
        "trainer",
        "our own failures are trained on",
        "trainer/mle_grpo_trainer.py",
        "rewards_per_func[failed.to(rewards_per_func.device)] = torch.nan",
        "",
    ),
    Fault(
        "trainer",
        "members of a group on two processes get different prompts",
        "trainer/asking/solution_prompts.py",
        "[(first + i) // self.args.group_size for i in",
        "[i // self.args.group_size for i in",
    ),
    Fault(
        "trainer",
        "a resumed run draws its prompts anew",
        "trainer/asking/solution_prompts.py",
        'self.generation = state["generation"]',
        "",
    ),
    Fault(
        "duration",
        "unknown durations count as 0 s in the mean",
        "trainer/duration.py",
        "divisor = durations.nanmean() if",
        "divisor = durations.nan_to_num().mean() if",
    ),
    Fault(
        "executor",
        "a submission may be a link",
        "execution/inside/submission.py",
        "os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK",
        "os.O_RDONLY | os.O_NONBLOCK",
    ),
    Fault("executor", "two programs share a slot", "execution/slots.py", "fcntl.LOCK_EX | ", "fcntl.LOCK_SH | "),
    Fault(
        "executor",
        "exit code 137 passes for out of memory",
        "execution/answer.py",
        'elif code == -signal.SIGKILL and report["oom_kills"] > 0:',
        "elif code in (137, -signal.SIGKILL):",
    ),
    Fault(
        "grader",
        "rows are compared in the order of the file",
        "competitions/competition.py",
        "if ids.equals(wanted):",
        "if len(ids) == len(wanted):",
    ),
    Fault(
        "grader",
        "log loss is clipped at 1e-15",
        "competitions/metrics.py",
        "eps = np.finfo(float).eps",
        "eps = 1e-15",
    ),
    Fault(
        "verifier",
        "a print may be the first statement of its block",
        "instrumentation/verify.py",
        " or any(before is None for before, _ in prints)",
        "",
    ),
    Fault(
        "verifier",
        "prints may be taken over by a call of setattr",
        "instrumentation/verify.py",
        'args=[_, ast.Constant("print" | "stdout"), *_]',
        'args=[_, ast.Constant("stdout"), *_]',
    ),
    Fault(
        "trainer",
        "a run whose valid programs vanish goes on",
        "trainer/rescue.py",
        "valid < LOST * expected",
        "valid < 0 * expected",
    ),
    Fault("trainer", "an optimizer keeps its moments", "trainer/rescue.py", "        optimizer.state.clear()\n", ""),
    Fault(
        "trainer",
        "solutions are improved as often as they should not be",
        "trainer/asking/solution_prompts.py",
        "rng.random() < self.args.improve_probability",
        "rng.random() > self.args.improve_probability",
    ),
    Fault(
        "trainer",
        "a damaged checkpoint is resumed from",
        "trainer/engine/checkpoint.py",
        'if not any(checkpoint.glob("rng_state*.pth")):',
        "if False:",
    ),
    Fault(
        "trainer",
        "gains for the best of k are those for the best of k - 1",
        "trainer/advantages.py",
        "comb(below, k - 1) / comb(n, k)",
        "comb(below, k - 2) / comb(n, k - 1)",
    ),
    Fault(
        "trainer",
        "small differences between failures are enlarged",
        "trainer/advantages.py",
        "standardized(progress, VALID_STEP)",
        "standardized(progress)",
    ),
    Fault(
        "trainer",
        "the pool shows its worst solutions most",
        "solutions/pool.py",
        "key=lambda solution: -quality(",
        "key=lambda solution: quality(",
    ),
    Fault(
        "duration",
        "bounds of weights are ignored",
        "trainer/duration.py",
        "else weights.clamp(low, high)",
        "else weights",
    ),
    Fault(
        "executor",
        "a submission may have a second name",
        "execution/inside/submission.py",
        "or info.st_nlink != 1",
        "",
    ),
    Fault(
        "executor",
        "a program may type into the terminal",
        "execution/sandbox/seccomp.py",
        "for request in (TIOCSTI, TIOCLINUX):",
        "for request in ():",
    ),
    Fault(
        "executor",
        "a program sees which pages are in memory",
        "execution/sandbox/seccomp.py",
        'filter_.add_rule(pyseccomp.ERRNO(errno.EOPNOTSUPP), "preadv2", pyseccomp.Arg(5, pyseccomp.NE, 0))',
        "pass",
    ),
    Fault(
        "grader",
        "lower is better where higher is",
        "competitions/competition.py",
        "return self.scoring.gain(score) > self.scoring.gain(other)",
        "return score < other",
    ),
    Fault(
        "grader",
        "probabilities need not sum to 1",
        "competitions/metrics.py",
        "check_row_sums(y_pred, np.isclose(y_pred.to_numpy().sum(axis=1), 1, atol=1e-6))",
        "pass",
    ),
    Fault(
        "prompts",
        "a table's text may hold special tokens",
        "prompts/untrusted_text.py",
        """plain_text(message["content"], special_tokens)}""",
        """message["content"]}""",
    ),
    Fault(
        "prompts",
        "a program can close its block",
        "prompts/untrusted_text.py",
        "max(3, 1 + max(runs, default=0))",
        "max(3, max(runs, default=0))",
    ),
    Fault(
        "prompts",
        "the target is a feature",
        "prompts/features.py",
        "no_features = {comp.group_column, *comp.target_columns}",
        "no_features = {comp.group_column}",
    ),
    Fault(
        "prompts",
        "ideas for one column are asked for several",
        "prompts/ideas.py",
        "if count > 1 and self.one_output else self",
        "if False else self",
    ),
    Fault(
        "prompts",
        "ideas come in the same order in every round",
        "prompts/ideas.py",
        'f"{self.seed} {comp.id} {turn}"',
        'f"{self.seed} {comp.id}"',
    ),
    Fault(
        "rewards",
        "a valid program may earn less than a failed one",
        "rewards/mle_reward.py",
        "max(self.floor, quality)",
        "quality",
    ),
    Fault(
        "rewards",
        "milestones earn nothing",
        "rewards/mle_reward.py",
        "self.fail_reward + self.milestone_reward * len(milestones)",
        "self.fail_reward",
    ),
    Fault(
        "rewards",
        "our own failures are paid like the program's",
        "rewards/mle_reward.py",
        "pass  # no reward",
        "reward = self.fail_reward",
    ),
    Fault(
        "rewards",
        "the best solution is the last one",
        "solutions/best_solutions.py",
        'if current is not None and not competition.better(score.value, current["score"]):\n                return False',
        "if False:\n                return False",
    ),
    Fault(
        "evaluation",
        "the best of k is the worst",
        "evaluation/best_of_k.py",
        "values if higher_is_better else -values",
        "-values if higher_is_better else values",
    ),
    Fault(
        "evaluation",
        "all competitions have the same seeds",
        "evaluation/harness.py",
        "(first + number) % SEEDS",
        "number % SEEDS",
    ),
    Fault(
        "evaluation",
        "our own failures count as the policy's",
        "evaluation/results.py",
        "for evaluation in evaluations if evaluation.reward is not None]",
        "for evaluation in evaluations]",
    ),
    Fault(
        "models",
        "a model's recommended top_p is used",
        "models/transformers_model.py",
        "with without_defaults(model), ",
        "with ",
    ),
    Fault(
        "launching",
        "a run resumes beyond its end",
        "launching/checks.py",
        "if 0 < args.max_steps < _step_of(checkpoint):",
        "if False:",
    ),
]
TESTS = {
    "trainer": ["tests/trainer"],
    "duration": ["tests/trainer"],
    "executor": ["tests/execution"],
    "grader": ["tests/competitions"],
    "verifier": ["tests/instrumentation"],
    "prompts": ["tests/prompts"],
    "rewards": ["tests/rewards", "tests/solutions"],
    "evaluation": ["tests/evaluation"],
    "models": ["tests/models", "tests/evaluation/test_policies.py"],
    "launching": ["tests/launching", "tests/scripts/test_train.py"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default="HEAD", help="commit whose tests should find the faults")
    parser.add_argument(
        "--only", nargs="+", choices=[*TESTS], default=[*TESTS], metavar="ROOM", help="only faults in these rooms"
    )
    parser.add_argument("--tests", nargs="+", help="run these, instead of all tests of a fault's room")
    parser.add_argument("--output", type=Path, help="file for the results as JSON")
    args = parser.parse_args()
    results = []
    table = Table("room", "fault", "found by", "s", title=f"{len(FAULTS)} faults, {args.commit}")
    with tempfile.TemporaryDirectory(prefix="faults-", dir=ROOT.parent) as folder:
        archive = subprocess.run(["git", "archive", args.commit], cwd=ROOT, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        for fault in FAULTS:
            if fault.room in args.only:
                result = {"room": fault.room, "fault": fault.meaning} | put(
                    fault, Path(folder), args.tests or TESTS[fault.room]
                )
                results.append(result)
                table.add_row(fault.room, fault.meaning, result["found_by"] or "nothing", f"{result['seconds']:.0f}")
                print(json.dumps(result), flush=True)
    PlainConsole().print(table)
    if args.output:
        args.output.write_text(json.dumps(results, indent=2))
    sys.exit(any(result["found_by"] is None for result in results))


def put(fault: Fault, folder: Path, tests: list[str]) -> dict:
    """The test that finds a fault, and after how many seconds."""
    path = folder / "trl_mle" / fault.file
    source = path.read_text()
    if source.count(fault.old) != 1:
        sys.exit(
            f"faults.py: error: {fault.old!r} occurs {source.count(fault.old)} times in {fault.file}: update the fault"
        )
    path.write_text(source.replace(fault.old, fault.new))
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--durations=0", *tests],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        path.write_text(source)
    seconds = time.monotonic() - began
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if done.returncode not in (0, 1) or bool(failed) != bool(done.returncode):
        sys.exit(
            f"faults.py: error: the tests of {fault.room} did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return {"found_by": failed[0] if failed else None, "seconds": seconds}


if __name__ == "__main__":
    main()
