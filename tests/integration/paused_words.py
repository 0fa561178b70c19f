"""The words of tests/data/digits.wav with pauses of a given length between them."""
import random
import struct

from daemon import pcm

PCM, RATE = pcm()
# The words, in samples, as in tests/unit/test_turns.c.
WORDS = [(4080, 7440), (8560, 12240), (13600, 16960), (19040, 23120), (24880, 29200), (30320, 35760), (37360, 40880)]


def quiet(seconds, noise):
    """Digital silence, or noise of -70 dB."""
    n = int(seconds * RATE)
    return struct.pack(f"<{n}h", *(random.randint(-18, 18) for _ in range(n))) if noise else bytes(2 * n)


def with_pauses(pause, noise):
    words = [PCM[2 * a:2 * b] for a, b in WORDS]
    gap = quiet(pause, noise)
    return quiet(0.4, noise) + gap.join(words) + quiet(2.5, noise)


def pieces(data, n=1600):
    return [data[at:at + n] for at in range(0, len(data), n)]
