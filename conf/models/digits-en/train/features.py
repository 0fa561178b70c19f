"""Kaldi log-mel features (8 kHz, 40 bins) in batched torch; equals kaldi-native-fbank to float precision."""
import math

import numpy as np
import torch

RATE = 8000
FRAME, SHIFT, FFT, BINS = 200, 80, 256, 40
LOW, HIGH = 60.0, 3800.0
FLOOR = 1.1920929e-07
LOG_FLOOR = math.log(FLOOR)


def _mel(f):
    return 1127.0 * np.log(1.0 + np.asarray(f, dtype=np.float64) / 700.0)


def mel_matrix():
    """[129, 40] triangular filters, spaced evenly on the mel scale as Kaldi lays them out."""
    lo, hi = _mel(LOW), _mel(HIGH)
    step = (hi - lo) / (BINS + 1)
    freqs = _mel(np.arange(FFT // 2 + 1) * RATE / FFT)
    out = np.zeros((FFT // 2 + 1, BINS))
    for b in range(BINS):
        left, centre, right = lo + b * step, lo + (b + 1) * step, lo + (b + 2) * step
        up = (freqs - left) / (centre - left)
        down = (right - freqs) / (right - centre)
        out[:, b] = np.maximum(0, np.minimum(up, down))
    out[FFT // 2] = 0  # Kaldi leaves the Nyquist bin out
    return torch.tensor(out, dtype=torch.float32)


def povey_window():
    n = np.arange(FRAME)
    return torch.tensor((0.5 - 0.5 * np.cos(2 * np.pi * n / (FRAME - 1))) ** 0.85, dtype=torch.float32)


_WINDOW, _MEL = povey_window(), mel_matrix()


def fbank(wave):
    """wave [..., samples] in [-1, 1] -> [..., frames, 40]; frame t covers samples [80 t, 80 t + 200)."""
    x = torch.as_tensor(wave, dtype=torch.float32).unfold(-1, FRAME, SHIFT)
    x = x - x.mean(-1, keepdim=True)
    prev = torch.cat([x[..., :1], x[..., :-1]], -1)
    x = (x - 0.97 * prev) * _WINDOW
    spec = torch.fft.rfft(x, FFT)
    power = spec.real.square() + spec.imag.square()
    return (power @ _MEL).clamp_min(FLOOR).log()


def white(dbfs):
    """[40] mean mel energies (not their logarithm) of white noise at this level, full scale being a square wave."""
    w = 2 * np.pi * np.arange(FFT // 2 + 1) / FFT
    power = 10 ** (dbfs / 10) * (_WINDOW.numpy() ** 2).sum() * (1 + 0.97 ** 2 - 2 * 0.97 * np.cos(w))
    return torch.tensor(power, dtype=torch.float32) @ _MEL
