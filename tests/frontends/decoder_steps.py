"""Steps of a small decoder of transformers, with its cache as variables or as arguments."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers.integrations.executorch import TorchExportableModuleWithStaticCache


def _model() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=128,
        max_position_embeddings=32,
        tie_word_embeddings=True,
    )
    return transformers.LlamaForCausalLM(config).eval()


def variables() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Make the step that transformers makes for runtimes: a static cache in buffers."""
    model = _model()
    settings = model.generation_config
    settings.use_cache, settings.cache_implementation = True, "static"
    settings.cache_config = {"batch_size": 1, "max_cache_len": 8}
    module = TorchExportableModuleWithStaticCache(model, batch_size=1, max_cache_len=8)
    return module, (torch.tensor([[3]]),), {"cache_position": torch.tensor([2])}


class _Step(torch.nn.Module):
    """Takes and returns keys and values."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any, position: Any, keys: list[Any], values: list[Any]) -> Any:
        cache = transformers.DynamicCache(list(zip(keys, values, strict=True)))
        made = self.model(input_ids=ids, position_ids=position, past_key_values=cache)
        layers = made.past_key_values.layers
        return made.logits, [one.keys for one in layers], [one.values for one in layers]


def arguments() -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """Make the step whose cache grows by one position."""
    model = _model()
    keys, values = ([torch.randn(1, 1, 5, 8) for _ in range(2)] for _ in range(2))
    return _Step(model), (torch.tensor([[3]]), torch.tensor([[5]]), keys, values)
