"""Observes whether activation checkpointing stays as configured."""

from transformers import TrainerCallback
from transformers.modeling_layers import GradientCheckpointingLayer


class CheckpointingRecorder(TrainerCallback):
    """Records after each step how each layer is checkpointed, and whether it is in training mode."""

    def __init__(self):
        self.seen = []

    def on_step_end(self, args, state, control, model, **kwargs):
        layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
        self.seen.append(
            [(m.training, m.gradient_checkpointing, m._gradient_checkpointing_func.keywords) for m in layers]
        )


def checkpointing_of(trainer):
    """How layers were checkpointed after each step of a training run, and how they should have been."""
    recorder = CheckpointingRecorder()
    trainer.add_callback(recorder)  # after all others
    trainer.train()
    as_asked = (True, True, trainer.args.gradient_checkpointing_kwargs)
    return recorder.seen, [[as_asked] * trainer.model.config.num_hidden_layers] * trainer.args.max_steps
