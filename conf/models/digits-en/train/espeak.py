"""libespeak-ng in this process: thousands of short utterances without a program start for each."""
import ctypes
import ctypes.util

import numpy as np

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
RATE, VOLUME, PITCH, RANGE, WORDGAP = 1, 2, 3, 4, 7


class Espeak:
    def __init__(self):
        self.lib = ctypes.CDLL(ctypes.util.find_library("espeak-ng") or "libespeak-ng.so.1")
        self.rate = self.lib.espeak_Initialize(2, 0, None, 0)
        self.parts = []

        def receive(wav, n, _events):
            if n > 0 and wav:
                self.parts.append(np.ctypeslib.as_array(wav, (n,)).copy())
            return 0
        self.cb = _CALLBACK(receive)
        self.lib.espeak_SetSynthCallback(self.cb)
        self.lib.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self.phone_cache = {}

    def voice(self, name, rate=175, pitch=50, spread=50, gap=0):
        if self.lib.espeak_SetVoiceByName(name.encode()):
            raise ValueError(f"no espeak-ng voice {name}")
        for p, v in ((RATE, rate), (PITCH, pitch), (RANGE, spread), (WORDGAP, gap), (VOLUME, 100)):
            self.lib.espeak_SetParameter(p, int(v), 0)

    def say(self, text):
        self.parts = []
        data = text.encode() + b"\0"
        self.lib.espeak_Synth(data, len(data), 0, 1, 0, 1, None, None)
        return np.concatenate(self.parts) if self.parts else np.zeros(0, np.int16)

    def phones(self, text):
        """Phoneme names of a text in the current voice's accent, without stress marks."""
        if text in self.phone_cache:
            return self.phone_cache[text]
        buf = ctypes.create_string_buffer(text.encode())
        ptr = ctypes.c_void_p(ctypes.addressof(buf))
        out = []
        while ptr.value:
            got = self.lib.espeak_TextToPhonemes(ctypes.byref(ptr), 1, (ord("_") << 8))
            if got:
                for w in got.decode().split():
                    out += [p.strip("',|%=") for p in w.split("_")]
        out = [p for p in out if p]
        self.phone_cache[text] = out
        return out
