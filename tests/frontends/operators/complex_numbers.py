"""Complex tensors and Fourier transforms of torch, in programs that take and return real tensors."""

from __future__ import annotations

from functools import partial

import torch
from programs import Program, floats, of
from torch import fft, nn


def _complex(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(x)


class _Rotary(nn.Module):
    """Rotates pairs of elements by angles that a complex buffer holds, as LLaMA's first form does."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(6.0), 10.0 ** -torch.arange(4.0))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = _complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(parts * self.turns[:, None]).flatten(-2)


make_rotary_complex = partial(of, _Rotary(), floats(2, 6, 3, 8))
make_polar = partial(
    of, lambda x, y: torch.view_as_real(torch.polar(x, y)), floats(3, 4), floats(3, 4, seed=1)
)


def make_complex_arithmetic() -> Program:
    def compute(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = torch.complex(x, y), torch.complex(y + 3, x)
        made = (a * b - 2 * a.conj()) / b + x * 1j
        return made.real, made.imag, made.abs(), made.angle()

    return of(compute, floats(3, 4), floats(3, 4, seed=1))


make_complex_matmul = partial(
    of,
    lambda x, y: torch.view_as_real(_complex(x) @ _complex(y)),
    floats(2, 3, 4, 2),
    floats(2, 4, 5, 2),
)
make_complex_exp_power = partial(
    of, lambda x: torch.view_as_real(torch.exp(_complex(x)) + _complex(x) ** 3), floats(3, 4, 2)
)


def make_complex_movement() -> Program:
    def compute(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = torch.cat([_complex(x), y.to(torch.complex64)], 1).transpose(0, 1)
        chosen = torch.where(a.real > 0, a[:, :1], a.flip(0))
        return torch.view_as_real(torch.stack(chosen.chunk(2)).sum(0))

    return of(compute, floats(3, 4, 2), floats(3, 2, seed=1))


make_fft = partial(of, lambda x: torch.view_as_real(fft.fft(x)), floats(2, 12))
make_fft_odd = partial(of, lambda x: fft.fft(x, norm="ortho").imag, floats(2, 7))
make_fft_padded = partial(of, lambda x: torch.view_as_real(fft.fft(x, n=8)), floats(2, 5))
make_fft_both_axes = partial(
    of, lambda x: fft.fft(fft.fft(x, dim=-1), dim=-2).real, floats(2, 8, 6)
)
make_fftn = partial(of, lambda x: fft.fftn(x, dim=(1, 2)).real, floats(2, 6, 5))
make_ifft = partial(of, lambda x: torch.view_as_real(fft.ifft(_complex(x), dim=0)), floats(5, 3, 2))
make_rfft = partial(of, lambda x: fft.rfft(x).abs(), floats(2, 12))
make_irfft = partial(of, lambda x: fft.irfft(_complex(x)), floats(3, 5, 2))
make_irfft_odd = partial(of, lambda x: fft.irfft(_complex(x), n=7, norm="forward"), floats(3, 4, 2))


def make_filter_of_frequencies() -> Program:
    def compute(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        found = fft.rfft2(x, dim=(1, 2), norm="ortho") * _complex(weights)
        return fft.irfft2(found, s=(6, 8), dim=(1, 2), norm="ortho")

    return of(compute, floats(1, 6, 8, 3), floats(6, 5, 3, 2, seed=1))


make_fftshift = partial(of, lambda x: fft.fftshift(fft.fft(x)).abs(), floats(2, 9))


def make_stft() -> Program:
    window = torch.hann_window(16)
    return of(
        lambda x: torch.view_as_real(torch.stft(x, 16, 8, window=window, return_complex=True)),
        floats(2, 64),
    )


def make_stft_power() -> Program:
    window = torch.hann_window(12)
    return of(
        lambda x: (
            torch.stft(
                x, 16, 4, 12, window, center=False, normalized=True, return_complex=True
            ).abs()
            ** 2
        ),
        floats(64),
    )


def make_istft() -> Program:
    window = torch.hann_window(16)
    return of(lambda x: torch.istft(_complex(x), 16, 4, window=window), floats(2, 9, 11, 2))


make_sqrt_complex = partial(
    of, lambda x: torch.view_as_real(torch.sqrt(_complex(x))), floats(3, 4, 2)
)
