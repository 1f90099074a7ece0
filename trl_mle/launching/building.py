"""Builds the instrumenter from the arguments."""

from transformers.integrations import unset_hf_deepspeed_config

from trl_mle.instrumentation import AstInstrumenter, Instrumenter, LmInstrumenter
from trl_mle.launching.arguments import MLEScriptArguments
from trl_mle.models import EndpointModel, LanguageModel
from trl_mle.models.transformers_model import TransformersModel
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


def make_instrumenter(script_args: MLEScriptArguments, training_args: MLEGRPOConfig) -> Instrumenter | None:
    """The instrumenter that marks the milestones. Raises `LanguageModelError` if its endpoint does not answer."""
    if script_args.instrumenter != "lm":
        return AstInstrumenter() if script_args.instrumenter == "ast" else None
    model: LanguageModel
    if script_args.instrumenter_url is not None:
        url, name = script_args.instrumenter_url, script_args.instrumenter_model
        model = EndpointModel(url, name, deadline_s=script_args.instrumenter_deadline_s)
        if training_args.use_vllm and training_args.vllm_mode == "server":
            address = f"{training_args.vllm_server_host}:{training_args.vllm_server_port}"
            model.check_is_not(training_args.vllm_server_base_url or address)
    else:
        assert script_args.instrumenter_model is not None  # which the arguments check
        # ZeRO-3 would shard the model while its configuration is registered with transformers
        unset_hf_deepspeed_config()
        model = TransformersModel(script_args.instrumenter_model, training_args.device)
        if training_args.deepspeed_plugin is not None:
            training_args.deepspeed_plugin.set_deepspeed_weakref()
    return LmInstrumenter(model, script_args.instrumenter_mode)  # type: ignore[arg-type]  # which it checks
