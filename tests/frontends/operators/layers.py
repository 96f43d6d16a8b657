"""Activations, normalizations, attention, recurrent layers and losses of torch."""

from __future__ import annotations

from functools import partial

import torch
from programs import Program, flags, floats, of, positive, unit
from torch import nn
from torch.nn import functional

make_relu = partial(of, functional.relu, floats(2, 3, 4))
make_relu6 = partial(of, functional.relu6, floats(2, 3, 4))
make_leaky_relu = partial(of, functional.leaky_relu, floats(2, 3, 4))
make_elu = partial(of, functional.elu, floats(2, 3, 4))
make_selu = partial(of, functional.selu, floats(2, 3, 4))
make_celu = partial(of, functional.celu, floats(2, 3, 4))
make_gelu = partial(of, functional.gelu, floats(2, 3, 4))
make_silu = partial(of, functional.silu, floats(2, 3, 4))
make_mish = partial(of, functional.mish, floats(2, 3, 4))
make_hardswish = partial(of, functional.hardswish, floats(2, 3, 4))
make_hardsigmoid = partial(of, functional.hardsigmoid, floats(2, 3, 4))
make_hardtanh = partial(of, functional.hardtanh, floats(2, 3, 4))
make_softplus = partial(of, functional.softplus, floats(2, 3, 4))
make_softsign = partial(of, functional.softsign, floats(2, 3, 4))
make_tanhshrink = partial(of, functional.tanhshrink, floats(2, 3, 4))
make_hardshrink = partial(of, functional.hardshrink, floats(2, 3, 4))
make_softshrink = partial(of, functional.softshrink, floats(2, 3, 4))
make_logsigmoid = partial(of, functional.logsigmoid, floats(2, 3, 4))
make_gelu_tanh = partial(of, lambda x: functional.gelu(x, approximate="tanh"), floats(2, 3, 4))
make_threshold = partial(of, lambda x: functional.threshold(x, 0.1, 20.0), floats(2, 3))
make_prelu = partial(of, nn.PReLU(3), floats(2, 3, 4))
make_glu = partial(of, lambda x: functional.glu(x, 1), floats(2, 4))
make_softmax = partial(of, lambda x: functional.softmax(x, -1), floats(2, 3, 4))
make_softmax_first = partial(of, lambda x: functional.softmax(x, 0), floats(2, 3, 4))
make_log_softmax = partial(of, lambda x: functional.log_softmax(x, 1), floats(2, 3, 4))
make_softmin = partial(of, lambda x: functional.softmin(x, -1), floats(2, 3))
make_batch_norm = partial(of, nn.BatchNorm2d(3).eval(), floats(2, 3, 4, 4))
make_batch_norm_1d = partial(of, nn.BatchNorm1d(3).eval(), floats(2, 3, 4))
make_batch_norm_3d = partial(of, nn.BatchNorm3d(3).eval(), floats(1, 3, 2, 4, 4))
make_layer_norm = partial(of, nn.LayerNorm(4), floats(2, 3, 4))
make_layer_norm_axes = partial(of, nn.LayerNorm([3, 4]), floats(2, 3, 4))
make_group_norm = partial(of, nn.GroupNorm(2, 4), floats(2, 4, 3, 3))
make_instance_norm = partial(of, nn.InstanceNorm2d(3, affine=True), floats(2, 3, 4, 4))
make_rms_norm = partial(of, nn.RMSNorm(4), floats(2, 3, 4))
make_local_response_norm = partial(of, nn.LocalResponseNorm(3), floats(1, 4, 3, 3))
make_normalize = partial(of, lambda x: functional.normalize(x, dim=1), floats(2, 3))
make_weight_norm = partial(of, nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), floats(2, 3))
make_attention = partial(
    of,
    functional.scaled_dot_product_attention,
    floats(1, 2, 4, 8),
    floats(1, 2, 4, 8, seed=1),
    floats(1, 2, 4, 8, seed=2),
)
make_attention_causal = partial(
    of,
    lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    floats(1, 2, 4, 8),
    floats(1, 2, 4, 8, seed=1),
    floats(1, 2, 4, 8, seed=2),
)
make_attention_mask = partial(
    of,
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


make_attention_groups = partial(
    of,
    lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    floats(1, 4, 3, 8),
    floats(1, 2, 3, 8, seed=1),
    floats(1, 2, 3, 8, seed=2),
)
make_transformer_layer = partial(
    of, nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), floats(1, 4, 8)
)
make_lstm = partial(of, nn.LSTM(3, 4, batch_first=True), floats(1, 3, 3))
make_gru = partial(of, nn.GRU(3, 4, batch_first=True), floats(1, 3, 3))
make_rnn = partial(of, nn.RNN(3, 4, batch_first=True), floats(1, 3, 3))
make_lstm_cell = partial(of, nn.LSTMCell(3, 4), floats(2, 3))
make_gru_cell = partial(of, nn.GRUCell(3, 4), floats(2, 3))
make_mse_loss = partial(of, functional.mse_loss, floats(2, 3), floats(2, 3, seed=1))
make_l1_loss = partial(of, functional.l1_loss, floats(2, 3), floats(2, 3, seed=1))
make_smooth_l1_loss = partial(of, functional.smooth_l1_loss, floats(2, 3), floats(2, 3, seed=1))
make_huber_loss = partial(of, functional.huber_loss, floats(2, 3), floats(2, 3, seed=1))
make_soft_margin_loss = partial(of, functional.soft_margin_loss, floats(2, 3), floats(2, 3, seed=1))
make_bce_loss = partial(of, functional.binary_cross_entropy, unit(2, 3), unit(2, 3, seed=1))
make_bce_with_logits = partial(
    of, functional.binary_cross_entropy_with_logits, floats(2, 3), unit(2, 3)
)
make_cross_entropy = partial(of, functional.cross_entropy, floats(2, 5), torch.tensor([1, 4]))
make_cross_entropy_smooth = partial(
    of,
    lambda x, y: functional.cross_entropy(x, y, label_smoothing=0.1),
    floats(2, 5),
    torch.tensor([1, 4]),
)
make_nll_loss = partial(of, functional.nll_loss, floats(2, 5), torch.tensor([1, 4]))
make_kl_div = partial(
    of, lambda x, y: functional.kl_div(x, y, reduction="batchmean"), floats(2, 3), unit(2, 3)
)
make_hinge_embedding_loss = partial(
    of, functional.hinge_embedding_loss, floats(2, 3), torch.tensor([[1.0, -1, 1], [-1, 1, 1]])
)
make_margin_ranking_loss = partial(
    of, functional.margin_ranking_loss, floats(4), floats(4, seed=1), torch.tensor([1.0, -1, 1, -1])
)
make_cosine_similarity = partial(
    of, functional.cosine_similarity, floats(2, 3), floats(2, 3, seed=1)
)
make_cosine_embedding_loss = partial(
    of,
    functional.cosine_embedding_loss,
    floats(2, 3),
    floats(2, 3, seed=1),
    torch.tensor([1.0, -1]),
)
make_triplet_margin_loss = partial(
    of, functional.triplet_margin_loss, floats(2, 3), floats(2, 3, seed=1), floats(2, 3, seed=2)
)
make_poisson_nll_loss = partial(of, functional.poisson_nll_loss, floats(2, 3), positive(2, 3))
make_gaussian_nll_loss = partial(
    of, functional.gaussian_nll_loss, floats(2, 3), floats(2, 3, seed=1), positive(2, 3, seed=2)
)
make_pairwise_distance = partial(
    of, functional.pairwise_distance, floats(2, 3), floats(2, 3, seed=1)
)
make_cdist = partial(of, torch.cdist, floats(2, 3), floats(4, 3, seed=1))
