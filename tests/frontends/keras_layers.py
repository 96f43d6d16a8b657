"""Keras models of one layer or operation each, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import keras
import numpy as np
from keras import layers, ops


class Case(NamedTuple):
    """shape: of the input, after a batch of one. make: the output of a symbolic input.

    below: the input has integers from 0 to below - 1, of int32; 0 for normal numbers of float32.
    """

    shape: tuple[int, ...]
    make: Callable[[Any], Any]
    below: int = 0


IMAGE, VOLUME, VECTOR, WORDS, SIGNAL = (8, 8, 4), (4, 6, 6, 2), (12,), (6, 8), (10, 4)

_ACTIVATIONS: Final = (
    *("celu", "elu", "exponential", "gelu", "glu", "hard_sigmoid"),
    *("hard_swish", "hard_tanh", "leaky_relu", "linear", "log_sigmoid", "log_softmax"),
    *("mish", "relu", "relu6", "selu", "sigmoid", "silu"),
    *("softmax", "softplus", "softsign", "sparse_plus", "squareplus", "tanh"),
    *("tanh_shrink",),
)


def _of(shape: tuple[int, ...], **made: Callable[[Any], Any]) -> dict[str, Case]:
    return {name: Case(shape, make) for name, make in made.items()}


def _layers(shape: tuple[int, ...], **made: Callable[[], Any]) -> dict[str, Case]:
    """Layers that are made when they are called, so that each model has its own weights."""

    def case(make: Callable[[], Any]) -> Case:
        return Case(shape, lambda x: make()(x))

    return {name: case(make) for name, make in made.items()}


def _activations() -> dict[str, Case]:
    def case(name: str) -> Case:
        return Case(VECTOR, lambda x: layers.Activation(name)(x))

    return {
        **{f"Activation {name}": case(name) for name in _ACTIVATIONS},
        **_of(
            VECTOR,
            gelu_by_tanh=lambda x: keras.activations.gelu(x, approximate=True),
        ),
        **_layers(
            VECTOR,
            PReLU=lambda: layers.PReLU(alpha_initializer="uniform"),
            ReLU_bounded=lambda: layers.ReLU(max_value=1.0, negative_slope=0.1, threshold=0.2),
        ),
        **_layers(WORDS, Softmax_first_axis=lambda: layers.Softmax(axis=1)),
    }


def _convolutions() -> dict[str, Case]:
    return {
        **_layers(
            IMAGE,
            Conv2D=lambda: layers.Conv2D(5, 3),
            Conv2D_same_stride=lambda: layers.Conv2D(5, 3, 2, "same"),
            Conv2D_dilated=lambda: layers.Conv2D(5, 3, dilation_rate=2, padding="same"),
            Conv2D_groups=lambda: layers.Conv2D(6, 3, groups=2),
            DepthwiseConv2D=lambda: layers.DepthwiseConv2D(3),
            DepthwiseConv2D_twice=lambda: layers.DepthwiseConv2D(3, depth_multiplier=2),
            SeparableConv2D=lambda: layers.SeparableConv2D(5, 3),
            Conv2DTranspose=lambda: layers.Conv2DTranspose(5, 3, 2, "same"),
            SpectralNormalization=lambda: layers.SpectralNormalization(layers.Conv2D(3, 3)),
        ),
        **_layers(
            SIGNAL,
            Conv1D=lambda: layers.Conv1D(5, 3),
            Conv1D_causal=lambda: layers.Conv1D(5, 3, padding="causal", dilation_rate=2),
            Conv1DTranspose=lambda: layers.Conv1DTranspose(5, 3, 2),
        ),
        **_layers(
            VOLUME,
            Conv3D=lambda: layers.Conv3D(3, 2),
            Conv3DTranspose=lambda: layers.Conv3DTranspose(3, 2),
        ),
        **_layers(
            WORDS,
            EinsumDense=lambda: layers.EinsumDense("abc,cd->abd", (6, 5)),
            TimeDistributed=lambda: layers.TimeDistributed(layers.Dense(3)),
        ),
        **_layers(VECTOR, Dense=lambda: layers.Dense(5)),
        "Embedding": Case((5,), lambda x: layers.Embedding(20, 4)(x), 20),
    }


def _pooling_and_sizes() -> dict[str, Case]:
    return {
        **_layers(
            IMAGE,
            MaxPooling2D=layers.MaxPooling2D,
            MaxPooling2D_same=lambda: layers.MaxPooling2D(3, 2, "same"),
            AveragePooling2D=lambda: layers.AveragePooling2D(2),
            AveragePooling2D_same=lambda: layers.AveragePooling2D(3, 2, "same"),
            GlobalAveragePooling2D=layers.GlobalAveragePooling2D,
            GlobalMaxPooling2D=layers.GlobalMaxPooling2D,
            Reshape=lambda: layers.Reshape((16, 16)),
            Flatten=layers.Flatten,
            Permute=lambda: layers.Permute((3, 1, 2)),
            Cropping2D=lambda: layers.Cropping2D(1),
            ZeroPadding2D=lambda: layers.ZeroPadding2D(1),
            UpSampling2D_nearest=layers.UpSampling2D,
            UpSampling2D_bilinear=lambda: layers.UpSampling2D(interpolation="bilinear"),
            UpSampling2D_bicubic=lambda: layers.UpSampling2D(interpolation="bicubic"),
            Resizing=lambda: layers.Resizing(5, 13),
            Resizing_nearest=lambda: layers.Resizing(5, 13, "nearest"),
        ),
        **_layers(SIGNAL, MaxPooling1D=layers.MaxPooling1D),
        **_layers(
            VOLUME,
            MaxPooling3D=layers.MaxPooling3D,
            AveragePooling3D=lambda: layers.AveragePooling3D(2),
            UpSampling3D=layers.UpSampling3D,
        ),
        **_layers(WORDS, UpSampling1D=layers.UpSampling1D),
        **_layers(VECTOR, RepeatVector=lambda: layers.RepeatVector(3)),
    }


def _sequences() -> dict[str, Case]:
    return {
        **_layers(
            WORDS,
            LSTM=lambda: layers.LSTM(5),
            LSTM_unrolled=lambda: layers.LSTM(5, unroll=True),
            GRU=lambda: layers.GRU(5),
            GRU_unrolled=lambda: layers.GRU(5, unroll=True),
            SimpleRNN=lambda: layers.SimpleRNN(5),
            SimpleRNN_unrolled=lambda: layers.SimpleRNN(5, unroll=True),
            Bidirectional_LSTM=lambda: layers.Bidirectional(layers.LSTM(5, unroll=True)),
            Masking=layers.Masking,
        ),
        **_layers((3, 6, 6, 2), ConvLSTM2D=lambda: layers.ConvLSTM2D(3, 3, unroll=True)),
        **_of(
            WORDS,
            MultiHeadAttention=lambda x: layers.MultiHeadAttention(2, 4)(x, x),
            MultiHeadAttention_causal=lambda x: layers.MultiHeadAttention(2, 4)(
                x, x, use_causal_mask=True
            ),
            GroupQueryAttention=lambda x: layers.GroupQueryAttention(4, 4, 2)(x, x),
            Attention=lambda x: layers.Attention()([x, x]),
            AdditiveAttention=lambda x: layers.AdditiveAttention()([x, x]),
        ),
    }


def _normalizations() -> dict[str, Case]:
    return {
        **_layers(
            IMAGE,
            BatchNormalization=layers.BatchNormalization,
            GroupNormalization=lambda: layers.GroupNormalization(2),
            Rescaling=lambda: layers.Rescaling(1 / 255, 0.5),
            Normalization=lambda: layers.Normalization(mean=0.5, variance=2.0),
        ),
        **_layers(
            WORDS,
            LayerNormalization=layers.LayerNormalization,
            RMSNormalization=layers.RMSNormalization,
            UnitNormalization=layers.UnitNormalization,
        ),
        **_layers(
            VECTOR,
            Dropout=lambda: layers.Dropout(0.5),
            GaussianNoise=lambda: layers.GaussianNoise(0.5),
            Discretization=lambda: layers.Discretization([-1.0, 0.0, 1.0]),
        ),
        **_layers(
            (64, 1),
            STFTSpectrogram=lambda: layers.STFTSpectrogram(
                frame_length=16, frame_step=8, fft_length=16
            ),
        ),
        "CategoryEncoding": Case((1,), lambda x: layers.CategoryEncoding(5, "one_hot")(x), 5),
    }


def _merging() -> dict[str, Case]:
    return {
        **_of(
            VECTOR,
            Add=lambda x: layers.Add()([x, 2 * x]),
            Subtract=lambda x: layers.Subtract()([x, 2 * x]),
            Multiply=lambda x: layers.Multiply()([x, x]),
            Average=lambda x: layers.Average()([x, 2 * x]),
            Maximum=lambda x: layers.Maximum()([x, -x]),
            Minimum=lambda x: layers.Minimum()([x, -x]),
            Concatenate=lambda x: layers.Concatenate()([x, x]),
        ),
        **_of(WORDS, Dot=lambda x: layers.Dot(2)([x, x])),
    }


def _elementwise() -> dict[str, Case]:
    cases = _of(
        VECTOR,
        abs=ops.abs,
        arctan2=lambda x: ops.arctan2(x, x * x + 1),
        ceil=ops.ceil,
        clip=lambda x: ops.clip(x, -0.5, 0.5),
        cos=ops.cos,
        erf=ops.erf,
        exp=ops.exp,
        floor=ops.floor,
        floor_divide=lambda x: ops.floor_divide(x, 2.0),
        log=lambda x: ops.log(ops.abs(x) + 1),
        logical_and=lambda x: ops.cast(ops.logical_and(x > 0, x < 1), "float32"),
        mod=lambda x: ops.mod(x, 2.0),
        power=lambda x: ops.power(x, 3.0),
        round=ops.round,
        rsqrt=lambda x: ops.rsqrt(ops.abs(x) + 1),
        sign=ops.sign,
        sin=ops.sin,
        sqrt=lambda x: ops.sqrt(ops.abs(x)),
        square=ops.square,
        tan=ops.tan,
        where=lambda x: ops.where(x > 0, x, 2 * x),
    )
    return {f"ops.{name}": case for name, case in cases.items()}


def _movement() -> dict[str, Case]:
    matrix = np.array([[1, 0.1, 0.5, 0, 1, 0.2, 0, 0]], np.float32)
    pads = ((0, 0), (1, 2), (2, 1), (0, 0))
    cases = {
        **_of(
            WORDS,
            argmax=lambda x: ops.argmax(x, -1),
            argmin=lambda x: ops.argmin(x, -1),
            cumsum=lambda x: ops.cumsum(x, 1),
            any=lambda x: ops.cast(ops.any(x > 1, 1), "float32"),
            einsum=lambda x: ops.einsum("bij,bkj->bik", x, x),
            logsumexp=lambda x: ops.logsumexp(x, 1),
            matmul=lambda x: ops.matmul(x, ops.transpose(x, (0, 2, 1))),
            max=lambda x: ops.max(x, 1),
            mean=lambda x: ops.mean(x, 1),
            prod=lambda x: ops.prod(x, 1),
            scatter_update=lambda x: ops.scatter_update(
                x, np.array([[0, 1, 1]]), np.array([5.0], np.float32)
            ),
            sort=lambda x: ops.sort(x, 1),
            std=lambda x: ops.std(x, 1),
            take=lambda x: ops.take(x, [1, 3], 1),
            take_along_axis=lambda x: ops.take_along_axis(x, ops.argmax(x, 1, keepdims=True), 1),
            top_k=lambda x: ops.top_k(x, 2)[0],
            unstack=lambda x: sum(ops.unstack(x, axis=1)),
        ),
        **_of(
            IMAGE,
            affine_transform=lambda x: ops.image.affine_transform(x, matrix),
            pad=lambda x: ops.pad(x, pads),
            pad_reflect=lambda x: ops.pad(x, pads, "reflect"),
            slice=lambda x: x[:, 1:5:2, ::-1],
            split=lambda x: ops.split(x, 2, -1)[1],
        ),
        **_of(
            VECTOR,
            stack=lambda x: ops.stack([x, 2 * x], 1),
            tile=lambda x: ops.tile(x, (1, 3)),
        ),
        **_of((16,), rfft=lambda x: ops.rfft(x)[0]),
        "one_hot": Case((4,), lambda x: ops.one_hot(x, 6), 6),
    }
    return {f"ops.{name}": case for name, case in cases.items()}


CASES: Final[dict[str, Case]] = {
    **_convolutions(),
    **_pooling_and_sizes(),
    **_activations(),
    **_normalizations(),
    **_sequences(),
    **_merging(),
    **_elementwise(),
    **_movement(),
}
