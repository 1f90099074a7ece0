"""Lets a vLLM server load new weights from a file: its own backends need GPUs, and its registry accepts others."""

from dataclasses import dataclass

from safetensors.torch import load_file
from vllm.distributed.weight_transfer import WeightTransferEngine, WeightTransferEngineFactory
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.model_executor.layers import utils
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from support.vllm_on_cpu import keep_weights


@dataclass
class FileInit(WeightTransferInitInfo):
    """No settings are needed."""


@dataclass
class FileUpdate(WeightTransferUpdateInfo):
    """Path of the file with the weights."""

    path: str


class FileEngine(WeightTransferEngine):
    """Loads all weights at once, as vLLM's engines load those that arrive by NCCL."""

    init_info_cls, update_info_cls = FileInit, FileUpdate

    def init_transfer_engine(self, init_info):
        pass

    def start_weight_update(self):
        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info):
        self.model.load_weights(load_file(update_info.path).items())

    def finish_weight_update(self):
        finalize_layerwise_reload(self.model, self.model_config)

    @staticmethod
    def trainer_send_weights(iterator, trainer_args):  # required by vLLM < 0.28
        raise NotImplementedError

    def shutdown(self):
        pass


class Extension:
    """The worker imports this class, and thus this module, before it creates its engine."""


WeightTransferEngineFactory.register_engine("file", FileEngine)
utils.dispatch_cpu_unquantized_gemm = keep_weights
