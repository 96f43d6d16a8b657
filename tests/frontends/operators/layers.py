"""Activations, normalizations, attention, recurrent layers and losses of torch."""

from __future__ import annotations

import torch
from programs import Program, flags, floats, of, positive, unit
from torch import nn
from torch.nn import functional


def make_relu() -> Program:
    return of(functional.relu, floats(2, 3, 4))


def make_relu6() -> Program:
    return of(functional.relu6, floats(2, 3, 4))


def make_leaky_relu() -> Program:
    return of(functional.leaky_relu, floats(2, 3, 4))


def make_elu() -> Program:
    return of(functional.elu, floats(2, 3, 4))


def make_selu() -> Program:
    return of(functional.selu, floats(2, 3, 4))


def make_celu() -> Program:
    return of(functional.celu, floats(2, 3, 4))


def make_gelu() -> Program:
    return of(functional.gelu, floats(2, 3, 4))


def make_silu() -> Program:
    return of(functional.silu, floats(2, 3, 4))


def make_mish() -> Program:
    return of(functional.mish, floats(2, 3, 4))


def make_hardswish() -> Program:
    return of(functional.hardswish, floats(2, 3, 4))


def make_hardsigmoid() -> Program:
    return of(functional.hardsigmoid, floats(2, 3, 4))


def make_hardtanh() -> Program:
    return of(functional.hardtanh, floats(2, 3, 4))


def make_softplus() -> Program:
    return of(functional.softplus, floats(2, 3, 4))


def make_softsign() -> Program:
    return of(functional.softsign, floats(2, 3, 4))


def make_tanhshrink() -> Program:
    return of(functional.tanhshrink, floats(2, 3, 4))


def make_hardshrink() -> Program:
    return of(functional.hardshrink, floats(2, 3, 4))


def make_softshrink() -> Program:
    return of(functional.softshrink, floats(2, 3, 4))


def make_logsigmoid() -> Program:
    return of(functional.logsigmoid, floats(2, 3, 4))


def make_gelu_tanh() -> Program:
    return of(lambda x: functional.gelu(x, approximate="tanh"), floats(2, 3, 4))


def make_threshold() -> Program:
    return of(lambda x: functional.threshold(x, 0.1, 20.0), floats(2, 3))


def make_prelu() -> Program:
    return of(nn.PReLU(3), floats(2, 3, 4))


def make_glu() -> Program:
    return of(lambda x: functional.glu(x, 1), floats(2, 4))


def make_softmax() -> Program:
    return of(lambda x: functional.softmax(x, -1), floats(2, 3, 4))


def make_softmax_first() -> Program:
    return of(lambda x: functional.softmax(x, 0), floats(2, 3, 4))


def make_log_softmax() -> Program:
    return of(lambda x: functional.log_softmax(x, 1), floats(2, 3, 4))


def make_softmin() -> Program:
    return of(lambda x: functional.softmin(x, -1), floats(2, 3))


def make_batch_norm() -> Program:
    return of(nn.BatchNorm2d(3).eval(), floats(2, 3, 4, 4))


def make_batch_norm_1d() -> Program:
    return of(nn.BatchNorm1d(3).eval(), floats(2, 3, 4))


def make_batch_norm_3d() -> Program:
    return of(nn.BatchNorm3d(3).eval(), floats(1, 3, 2, 4, 4))


def make_layer_norm() -> Program:
    return of(nn.LayerNorm(4), floats(2, 3, 4))


def make_layer_norm_axes() -> Program:
    return of(nn.LayerNorm([3, 4]), floats(2, 3, 4))


def make_group_norm() -> Program:
    return of(nn.GroupNorm(2, 4), floats(2, 4, 3, 3))


def make_instance_norm() -> Program:
    return of(nn.InstanceNorm2d(3, affine=True), floats(2, 3, 4, 4))


def make_rms_norm() -> Program:
    return of(nn.RMSNorm(4), floats(2, 3, 4))


def make_local_response_norm() -> Program:
    return of(nn.LocalResponseNorm(3), floats(1, 4, 3, 3))


def make_normalize() -> Program:
    return of(lambda x: functional.normalize(x, dim=1), floats(2, 3))


def make_weight_norm() -> Program:
    return of(nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), floats(2, 3))


def make_attention() -> Program:
    return of(
        functional.scaled_dot_product_attention,
        floats(1, 2, 4, 8),
        floats(1, 2, 4, 8, seed=1),
        floats(1, 2, 4, 8, seed=2),
    )


def make_attention_causal() -> Program:
    return of(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        floats(1, 2, 4, 8),
        floats(1, 2, 4, 8, seed=1),
        floats(1, 2, 4, 8, seed=2),
    )


def make_attention_mask() -> Program:
    return of(
        functional.scaled_dot_product_attention,
        floats(1, 2, 4, 8),
        floats(1, 2, 4, 8, seed=1),
        floats(1, 2, 4, 8, seed=2),
        flags(1, 1, 4, 4) | torch.eye(4, dtype=torch.bool),
    )


def make_attention_of_hidden_rows() -> Program:
    """One row sees nothing: its result is 0, not NaN."""
    return of(
        functional.scaled_dot_product_attention,
        floats(1, 2, 4, 8),
        floats(1, 2, 4, 8, seed=1),
        floats(1, 2, 4, 8, seed=2),
        torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 0]], dtype=torch.bool),
    )


def make_safe_softmax() -> Program:
    scores = floats(2, 3, 5)
    scores[0, 0] = scores[1, 0, 1:] = -torch.inf
    scores[0, 1, 1], scores[0, 2, 2], scores[1, 1, 3] = torch.inf, torch.nan, 3e38
    return of(lambda x: torch.ops.aten._safe_softmax(x, -1), scores)


def make_attention_groups() -> Program:
    return of(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        floats(1, 4, 3, 8),
        floats(1, 2, 3, 8, seed=1),
        floats(1, 2, 3, 8, seed=2),
    )


def make_transformer_layer() -> Program:
    return of(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), floats(1, 4, 8))


def make_lstm() -> Program:
    return of(nn.LSTM(3, 4, batch_first=True), floats(1, 3, 3))


def make_gru() -> Program:
    return of(nn.GRU(3, 4, batch_first=True), floats(1, 3, 3))


def make_rnn() -> Program:
    return of(nn.RNN(3, 4, batch_first=True), floats(1, 3, 3))


def make_lstm_cell() -> Program:
    return of(nn.LSTMCell(3, 4), floats(2, 3))


def make_gru_cell() -> Program:
    return of(nn.GRUCell(3, 4), floats(2, 3))


def make_mse_loss() -> Program:
    return of(functional.mse_loss, floats(2, 3), floats(2, 3, seed=1))


def make_l1_loss() -> Program:
    return of(functional.l1_loss, floats(2, 3), floats(2, 3, seed=1))


def make_smooth_l1_loss() -> Program:
    return of(functional.smooth_l1_loss, floats(2, 3), floats(2, 3, seed=1))


def make_huber_loss() -> Program:
    return of(functional.huber_loss, floats(2, 3), floats(2, 3, seed=1))


def make_soft_margin_loss() -> Program:
    return of(functional.soft_margin_loss, floats(2, 3), floats(2, 3, seed=1))


def make_bce_loss() -> Program:
    return of(functional.binary_cross_entropy, unit(2, 3), unit(2, 3, seed=1))


def make_bce_with_logits() -> Program:
    return of(functional.binary_cross_entropy_with_logits, floats(2, 3), unit(2, 3))


def make_cross_entropy() -> Program:
    return of(functional.cross_entropy, floats(2, 5), torch.tensor([1, 4]))


def make_cross_entropy_smooth() -> Program:
    return of(
        lambda x, y: functional.cross_entropy(x, y, label_smoothing=0.1),
        floats(2, 5),
        torch.tensor([1, 4]),
    )


def make_nll_loss() -> Program:
    return of(functional.nll_loss, floats(2, 5), torch.tensor([1, 4]))


def make_kl_div() -> Program:
    return of(lambda x, y: functional.kl_div(x, y, reduction="batchmean"), floats(2, 3), unit(2, 3))


def make_hinge_embedding_loss() -> Program:
    return of(
        functional.hinge_embedding_loss, floats(2, 3), torch.tensor([[1.0, -1, 1], [-1, 1, 1]])
    )


def make_margin_ranking_loss() -> Program:
    return of(
        functional.margin_ranking_loss, floats(4), floats(4, seed=1), torch.tensor([1.0, -1, 1, -1])
    )


def make_cosine_similarity() -> Program:
    return of(functional.cosine_similarity, floats(2, 3), floats(2, 3, seed=1))


def make_cosine_embedding_loss() -> Program:
    return of(
        functional.cosine_embedding_loss,
        floats(2, 3),
        floats(2, 3, seed=1),
        torch.tensor([1.0, -1]),
    )


def make_triplet_margin_loss() -> Program:
    return of(
        functional.triplet_margin_loss, floats(2, 3), floats(2, 3, seed=1), floats(2, 3, seed=2)
    )


def make_poisson_nll_loss() -> Program:
    return of(functional.poisson_nll_loss, floats(2, 3), positive(2, 3))


def make_gaussian_nll_loss() -> Program:
    return of(
        functional.gaussian_nll_loss, floats(2, 3), floats(2, 3, seed=1), positive(2, 3, seed=2)
    )


def make_pairwise_distance() -> Program:
    return of(functional.pairwise_distance, floats(2, 3), floats(2, 3, seed=1))


def make_cdist() -> Program:
    return of(torch.cdist, floats(2, 3), floats(4, 3, seed=1))
