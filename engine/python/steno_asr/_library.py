"""steno.h for ctypes: the structs, the functions and the library itself.

tests/python/layout.py compares every field with a C compiler's view of steno.h.
"""

from __future__ import annotations

import ctypes
import operator
import os
from ctypes import POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64
from ctypes import c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

ABI = 0  # STENO_ABI_VERSION
SONAME = f"libsteno.so.{ABI}"

SPEECH_START, PARTIAL, FINAL, UTTERANCE_END = range(4)
KINDS = ("speech_start", "partial", "final", "utterance_end")
REASONS = ("endpoint", "length", "request", "end", "backchannel")
OK = 0


class Err(Structure):
    _fields_ = [("code", c_uint), ("msg", c_char * 1024)]


class Option(Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class Hints(Structure):
    _fields_ = [
        ("language", c_char_p),
        ("translate", c_bool),
        ("prompt", c_char_p),
        ("prefix", c_char_p),
        ("hotwords", c_char_p),
    ]


class ModelOptions(Structure):
    _fields_ = [
        ("cpu", c_char_p),
        ("threads", c_int),
        ("plain", c_bool),
        ("precision", c_uint),
        ("options", POINTER(Option)),
        ("n_options", c_size_t),
    ]


class EndpointRules(Structure):
    _fields_ = [("silence_alone", c_double), ("silence_after", c_double), ("longest", c_double)]


class ModelInfo(Structure):
    _fields_ = [
        ("dir", c_char_p),
        ("name", c_char_p),
        ("version", c_char_p),
        ("family", c_char_p),
        ("language", c_char_p),
        ("license", c_char_p),
        ("network", c_char_p),
        ("results_of", c_char_p),
        ("sample_rate", c_int),
        ("feature_bins", c_int),
        ("frame_seconds", c_double),
        ("chunk_seconds", c_double),
        ("lookahead_seconds", c_double),
        ("weight_bytes", c_size_t),
        ("stream_bytes", c_size_t),
        ("vocab_size", c_size_t),
        ("endpoint", EndpointRules),
        ("languages", c_char_p),
        ("detects_language", c_bool),
        ("translates", c_bool),
        ("takes_prompt", c_bool),
        ("takes_hotwords", c_bool),
        ("cuts", c_bool),
    ]


class RecordingInfo(Structure):
    _fields_ = [
        ("sample_rate", c_int),
        ("channels", c_int),
        ("frames", c_int64),
        ("format", c_char_p),
        ("codec", c_char_p),
        ("truncated", c_bool),
    ]


class StreamOptions(Structure):
    _fields_ = [
        ("sample_rate", c_int),
        ("no_endpointing", c_bool),
        ("no_partials", c_bool),
        ("no_tail", c_bool),
        ("beam", c_int),
        ("n_best", c_int),
        ("endpoint", EndpointRules),
        ("utterance_end", c_double),
        ("vad", c_void_p),
        ("turn_vad", c_void_p),
        ("hints", Hints),
        ("no_word_times", c_bool),
        ("options", POINTER(Option)),
        ("n_options", c_size_t),
    ]


class Word(Structure):
    _fields_ = [("text", c_char_p), ("start", c_double), ("end", c_double), ("confidence", c_float)]


class Token(Structure):
    _fields_ = [("id", c_int32), ("confidence", c_float), ("start", c_double), ("end", c_double)]


class Alternative(Structure):
    _fields_ = [
        ("text", c_char_p),
        ("confidence", c_float),
        ("score", c_double),
        ("n_words", c_size_t),
        ("words", POINTER(Word)),
        ("n_tokens", c_size_t),
        ("tokens", POINTER(Token)),
        ("n_ids", c_size_t),
        ("ids", POINTER(c_int32)),
    ]


class Labels(Structure):
    _fields_ = [("emotion", c_char_p), ("sound", c_char_p)]


class Section(Structure):
    _fields_ = [
        ("start", c_double),
        ("end", c_double),
        ("text", c_char_p),
        ("first_word", c_size_t),
        ("n_words", c_size_t),
        ("first_token", c_size_t),
        ("n_tokens", c_size_t),
        ("n_ids", c_size_t),
        ("ids", POINTER(c_int32)),
        ("score", c_double),
        ("seek", c_double),
        ("temperature", c_float),
        ("language", c_char * 4),
        ("avg_log_prob", c_double),
        ("compression_ratio", c_float),
        ("no_speech", c_float),
        ("labels", Labels),
    ]


class Event(Structure):
    _fields_ = [
        ("kind", c_uint),
        ("segment", c_int64),
        ("time", c_double),
        ("start", c_double),
        ("end", c_double),
        ("text", c_char_p),
        ("stable_bytes", c_size_t),
        ("stable_words", c_size_t),
        ("confidence", c_float),
        ("n_words", c_size_t),
        ("words", POINTER(Word)),
        ("n_tokens", c_size_t),
        ("tokens", POINTER(Token)),
        ("n_alternatives", c_size_t),
        ("alternatives", POINTER(Alternative)),
        ("reason", c_uint),
        ("n_sections", c_size_t),
        ("sections", POINTER(Section)),
        ("language", c_char_p),
        ("language_probability", c_float),
        ("labels", Labels),
    ]


_ERR = POINTER(Err)
_HANDLE = POINTER(c_void_p)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "steno_abi_version": (c_int, []),
    "steno_version": (c_char_p, []),
    "steno_status_name": (c_char_p, [c_uint]),
    "steno_precision_find": (c_bool, [c_char_p, POINTER(c_uint)]),
    "steno_free": (None, [c_void_p]),
    "steno_model_options_default": (ModelOptions, []),
    "steno_model_find": (c_uint, [_HANDLE, c_char_p, _ERR]),
    "steno_model_use_grammars": (c_uint, [c_void_p, c_char_p, _ERR]),
    "steno_model_use_punctuators": (c_uint, [c_void_p, c_char_p, _ERR]),
    "steno_model_open": (c_uint, [_HANDLE, c_char_p, POINTER(ModelOptions), _ERR]),
    "steno_model_close": (None, [c_void_p]),
    "steno_model_get_info": (None, [c_void_p, POINTER(ModelInfo)]),
    "steno_vad_open": (c_uint, [_HANDLE, c_char_p, _ERR]),
    "steno_vad_find": (c_uint, [_HANDLE, c_char_p, _ERR]),
    "steno_vad_is_dir": (c_bool, [c_char_p]),
    "steno_vad_close": (None, [c_void_p]),
    "steno_recording_open": (c_uint, [_HANDLE, c_char_p, c_int, _ERR]),
    "steno_recording_open_memory": (c_uint, [_HANDLE, c_void_p, c_size_t, c_int, _ERR]),
    "steno_recording_close": (None, [c_void_p]),
    "steno_recording_get_info": (None, [c_void_p, POINTER(RecordingInfo)]),
    "steno_recording_read": (c_uint, [c_void_p, c_void_p, c_size_t, POINTER(c_size_t), _ERR]),
    "steno_stream_options_default": (StreamOptions, []),
    "steno_stream_open": (c_uint, [_HANDLE, c_void_p, POINTER(StreamOptions), _ERR]),
    "steno_stream_close": (None, [c_void_p]),
    "steno_stream_set_early": (None, [c_void_p, c_bool]),
    "steno_stream_push": (c_uint, [c_void_p, c_void_p, c_size_t, _ERR]),
    "steno_stream_push_s16": (c_uint, [c_void_p, c_void_p, c_size_t, _ERR]),
    "steno_stream_finalize": (c_uint, [c_void_p, _ERR]),
    "steno_stream_end": (c_uint, [c_void_p, _ERR]),
    "steno_stream_next": (c_bool, [c_void_p, POINTER(Event)]),
    "steno_stream_samples": (c_int64, [c_void_p]),
}


def _open() -> ctypes.CDLL:
    """$STENO_LIBRARY, else the library within the wheel, else the installed one."""
    bundled = Path(__file__).with_name(SONAME)
    lib = ctypes.CDLL(os.environ.get("STENO_LIBRARY") or (str(bundled) if bundled.exists() else SONAME))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    found = lib.steno_abi_version()
    if found != ABI:
        raise ImportError(f"{lib._name} has interface {found}, this package needs {ABI}")
    return lib


lib = _open()


class Error(Exception):
    """A call of the library failed; str() says what, where, with which values.

    code: a stable name such as "io_error", "invalid_data", "invalid_argument".
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return (type(self), (self.code, str(self)))


def call(function: str, *arguments: Any) -> None:
    """Call a function whose last argument is a steno_err; raise Error if it fails."""
    err = Err()
    status = getattr(lib, function)(*arguments, byref(err))
    if status != OK:
        raise Error(lib.steno_status_name(status).decode(), err.msg.decode("utf-8", "replace"))


def open_handle(function: str, *arguments: Any) -> int:
    """Call a function that opens something. Returns the handle."""
    handle = c_void_p()
    call(function, byref(handle), *arguments)
    assert handle.value
    return handle.value


def encode(value: Any) -> bytes:
    """A text for the library, which would end it at a NUL."""
    if not isinstance(value, str):
        raise TypeError(f"must be str, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError(f"embedded null character in {value[:40]!r}")
    return value.encode()


def encode_path(value: Any) -> bytes:
    """A path for the library."""
    encoded = os.fsencode(value)
    if b"\0" in encoded:
        raise ValueError(f"embedded null byte in {encoded[:40]!r}")
    return encoded


def int32(name: str, value: Any) -> int:
    """A whole number for the library, of 32 bits; ctypes would cut it."""
    number = operator.index(value)
    if abs(number) >= 1 << 31:
        raise OverflowError(f"{name}: {number} has more than 32 bits")
    return number


def open_found(find: str, name: Any, function: str, *arguments: Any) -> int:
    """Open the directory that a function finds for a path, a name or None. Returns the handle."""
    directory = open_handle(find, None if name is None else encode_path(name))
    try:
        return open_handle(function, ctypes.cast(directory, c_char_p).value, *arguments)
    finally:
        lib.steno_free(directory)
