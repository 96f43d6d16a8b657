"""Language models of transformers with random weights, for rows of run.py: torch modules and inputs."""

from __future__ import annotations

from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

Case = tuple[Any, tuple[torch.Tensor]]


def _case(model: Any) -> Case:
    return model.eval(), (torch.arange(64)[None],)


def _decoder(width: int, layers: int) -> Case:
    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=width,
        intermediate_size=width * 11 // 4,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        use_cache=False,
    )
    return _case(LlamaForCausalLM(config))


def make_gpt2() -> Case:
    """GPT-2 of 124 million parameters (Radford and others, 2019)."""
    return _case(GPT2LMHeadModel(GPT2Config(use_cache=False)))


def make_decoder_300m() -> Case:
    """Return a decoder as Llama's of 310 million parameters."""
    return _decoder(1024, 19)


def make_decoder_1b() -> Case:
    """Return a decoder as Llama's of 1,056 million parameters."""
    return _decoder(2048, 18)
