"""The text of a run's model card."""

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from transformers import TrainerState

from trl_mle.competitions import Competition, TaskSet
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS
from trl_mle.competitions.loading import is_own
from trl_mle.competitions.task_set import FEW
from trl_mle.execution import Limits
from trl_mle.instrumentation import LmInstrumenter
from trl_mle.rewards import MLEReward
from trl_mle.showing import for_json, for_markdown, markdown_code, metric_in_words, number
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


BODY = """\
# {model_name}

{base_model}, trained by reinforcement learning to write programs that solve {competitions}. It was trained with `trl_mle`,
which extends [TRL](https://github.com/huggingface/trl), by the method of
[Reinforcement Learning for Machine Learning Engineering Agents](https://huggingface.co/papers/2509.01684).

> [!WARNING]
> This model writes programs, and it was rewarded for their scores, not for being harmless. Run what it writes in a
> sandbox, without network and without anything that you would miss: `trl-mle run` does so.

## Results

{results}

## How to use it

{needs}```python
from transformers import pipeline
from trl_mle.competitions import load_competition
from trl_mle.execution import Limits
from trl_mle.prompts import extract_code, opening_of, scratch_prompt

limits = Limits({limits})
prompt = scratch_prompt(load_competition({competition}), limits, begin_program={begin_program})
generator = pipeline("text-generation", model={model})
[output] = generator(prompt, max_new_tokens={max_tokens}, do_sample=True, temperature={temperature:g}, return_full_text=False)
open("solution.py", "w").write(extract_code(opening_of(prompt) + output["generated_text"]) or "")
```

{command} runs the program in a sandbox and grades it. Sample several, and keep the best.

## Training procedure

{settings}
"""


def card_body(
    model_name: str | None,
    base_model: str | None,
    hub_model_id: str | None,
    args: MLEGRPOConfig,
    output_dir: Path,
    engine: str,
    lora: bool,
    tasks: TaskSet,
    rewards: Sequence[MLEReward],
    reward_weights: Mapping[str, float],
    state: TrainerState,
    limits: Limits,
) -> str:
    """The Markdown of the card, up to the versions and citations."""
    competitions = [tasks[name] for name in tasks.few()]
    name, needs = _first_competition(competitions)
    names = [markdown_code(competition.id) for competition in competitions] or ["Kaggle competitions"]
    if len(tasks) > len(competitions):
        names = [f"{len(tasks):,} competitions, such as {', '.join(names[:3])}"]
    shown = [f"timeout_s={limits.timeout_s:g}", f"memory_mb={limits.memory_mb}"]
    if limits.packages != Limits.packages:  # the default
        shown.append(f"packages={limits.packages}")
    return BODY.format(
        model_name=for_markdown(model_name) if model_name else "A policy that writes Kaggle solutions",
        base_model=f"[{for_markdown(base_model)}](https://huggingface.co/{quote(base_model)})"
        if base_model
        else "A language model",
        competitions=", ".join(names),
        needs=needs,
        competition=for_json(name),
        command=markdown_code(f"trl-mle run {shlex.quote(name)} solution.py"),
        results=_results(tasks, state, args, output_dir),
        model=for_json(hub_model_id or f"path/to/{output_dir.resolve().name}"),
        limits=", ".join(shown),
        begin_program=args.begin_program,
        max_tokens=args.max_completion_length,
        temperature=args.temperature,
        settings="\n".join(
            f"- {line}" for line in _settings(args, state.global_step, engine, lora, rewards, reward_weights)
        ),
    )


def _first_competition(competitions: Sequence[Competition]) -> tuple[str, str]:
    """How a reader loads the first competition, and a paragraph on what that needs, which may be empty."""
    if not competitions:
        return "digits", ""
    first = competitions[0]
    if is_own(first):
        return f"path/to/{first.slug}", (
            f"{markdown_code(first.id)} is a competition of the author's own, which is not part of the model: a folder as "
            f"`trl-mle new` makes it from a table. Replace `path/to/{first.slug}` by such a folder.\n\n"
        )
    if first.id in MLEBENCH_COMPETITIONS or first.grader:
        return first.id, f"`trl-mle prepare {first.id}` downloads the competition's data.\n\n"
    return first.id, ""


def _results(tasks: TaskSet, state: TrainerState, args: MLEGRPOConfig, output_dir: Path) -> str:
    """A table of the policy's programs at the start and at the end of training; of many competitions, one of all together."""
    batches = [entry for entry in state.log_history if "reward" in entry]
    if not batches or not tasks:
        return "No step has been logged yet."
    several = len(tasks) > 1
    shown = [tasks[name] for name in tasks] if len(tasks) <= FEW else [None]
    competitions = [competition for competition in shown if competition is not None]
    heads = ["competition", "when", "programs", "valid", "valid without training", "mean score", "best score"]
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for competition in shown:
        name, of_all = f"{len(tasks):,} together", "mle"
        if competition is not None:
            arrow = "↑" if competition.higher_is_better else "↓"
            name = markdown_code(competition.id).replace("|", "\\|")  # a cell ends there, in code, too
            name += f" ({for_markdown(metric_in_words(competition.metric))} {arrow})"
            of_all = f"mle/{competition.slug}" if several else "mle"
        asked = [
            entry for entry in batches if f"{of_all}/programs" in entry
        ] or batches  # not every batch asks for each
        for label, entry in (("before", asked[0]), ("after", asked[-1])):
            prefix = of_all
            if not several and "mle/scratch/valid_rate" in entry:  # those that were shown a solution have it easier
                prefix = "mle/scratch"
            programs = entry.get(f"{prefix}/programs")
            rates = [entry.get(f"{prefix}/{key}") for key in ("valid_rate", "untrained_valid_rate")]
            scores = [entry.get(f"{prefix}/score/{key}") for key in ("mean", "best")]
            figures = ["–" if value is None else f"{value:.0%}" for value in rates]
            figures += ["–" if value is None else number(value, 4) for value in scores]
            rows.append(f"| {name} | {label}, step {entry['step']} | {programs or 0:.0f} | {' | '.join(figures)} |")
    found = []
    for competition in competitions:
        path = output_dir / "best_solutions" / competition.slug / "score.json"
        with suppress(OSError, ValueError):  # missing, or truncated by a kill
            record = json.loads(path.read_text(encoding="utf-8"))
            if "held_out" in record:
                found.append(
                    f"The best program of the whole run in {markdown_code(competition.id)}, chosen by the validation rows, scores "
                    f"**{number(record['held_out'], 4)}** on the held-out rows (`chosen_by: validation`), and {number(record['full'], 4)} "
                    "on all rows, to compare with published figures."
                )
            else:
                found.append(
                    f"The best program of the whole run scores **{number(record['score'], 4)}** in {markdown_code(competition.id)}."
                )
    where = "on the hidden answers"
    if any(competition.holdout for competition in competitions):
        where += " that training sees, the validation rows"
    notes = (
        "Programs sampled in training with temperature "
        f"{args.temperature:g}: those logged first are the policy's before training, and those logged last its last "
        f"(means over {state.logging_steps:g} step{'' if state.logging_steps == 1 else 's'}). One run, seed {args.seed}. "
        f"Scores are those of valid submissions {where}. Valid without training is the share of them whose "
        "program was not seen to train a model: it may have found a weakness of the metric."
    )
    if several and args.improve_probability > 0:
        notes += " After some steps a part of the programs improves earlier ones, which is easier."
    return "\n".join([*rows, "", notes, *found])


def _settings(
    args: MLEGRPOConfig,
    steps: int,
    engine: str,
    lora: bool,
    rewards: Sequence[MLEReward],
    reward_weights: Mapping[str, float],
) -> list[str]:
    low, high = args.duration_weight_low, args.duration_weight_high
    bounds = ""
    if (low, high) != (None, None):
        bounds = f", bounded to [{0 if low is None else low:g}, {'∞' if high is None else format(high, 'g')}]"
    weighting = {
        "linear": f"`linear`: each advantage is multiplied by Δt / mean Δt{bounds}",
        "none": "`none`",
    }
    rollouts = "synchronous"
    if args.async_rollouts:
        rollouts = f"asynchronous, at most {args.max_in_flight} in flight"
    lines = [
        f"{steps} step{'' if steps == 1 else 's'} of {args.generation_batch_size} programs in groups of {args.num_generations}, "
        f"learning rate {args.learning_rate:g}, KL coefficient {args.beta:g}, loss `{args.loss_type}`, seed {args.seed}",
        f"{'LoRA' if lora else 'all weights'}, {engine}",
        f"rollouts: {rollouts}",
        "objective: " + (f"`max_at_k`, k = {args.max_at_k}" if args.max_at_k else f"`{args.objective}`"),
        f"duration weighting: {weighting[args.duration_weighting or 'none']}",
        f"improve prompts: a share of {args.improve_probability:g} of the groups",
    ]
    if len(reward_weights) > 1:
        weighed = (f"{markdown_code(name)} ({weight:g})" for name, weight in reward_weights.items())
        lines.append(f"reward functions and their weights: {', '.join(weighed)}")
    for reward in rewards:
        if reward.instrumenter is None:
            lines.append("instrumentation: none, no partial credit")
            continue
        who = "rules on the syntax tree"
        if isinstance(reward.instrumenter, LmInstrumenter):
            who = f"a frozen language model ({for_markdown(reward.instrumenter.model.identity)})"
        lines.append(
            f"instrumentation: milestones marked by {who}; a failed program earns {reward.fail_reward:g}, and "
            f"{reward.milestone_reward:g} for each milestone that it reached"
        )
    return lines
