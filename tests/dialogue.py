"""Write a dialogue of two voices, 23 s: John F. Kennedy (tests/data/speech/jfk.wav), and between his phrases twice the
digits of tests/data/digits.wav. dialogue.py FILE.wav"""
import os
import sys
import wave
from array import array

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
RATE = 16000
PHRASES = (0, 3, 8, 11)  # seconds at which Kennedy pauses


def samples(name):
    """16-bit samples at 16 kHz, of 8 or 16 kHz."""
    with wave.open(os.path.join(DATA, name)) as w:
        x = array("h", w.readframes(w.getnframes()))
        return x if w.getframerate() == RATE else array("h", (v for a, b in zip(x, x[1:]) for v in (a, (a + b) // 2)))


def dialogue():
    kennedy, digits = samples("speech/jfk.wav"), samples("digits.wav")
    phrases = [kennedy[a * RATE : b * RATE] for a, b in zip(PHRASES, PHRASES[1:])]
    return phrases[0] + digits + phrases[1] + digits + phrases[2]


if __name__ == "__main__":
    with wave.open(sys.argv[1], "w") as out:
        out.setparams((1, 2, RATE, 0, "NONE", ""))
        out.writeframes(dialogue().tobytes())
