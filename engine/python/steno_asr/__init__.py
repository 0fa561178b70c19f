"""Speech recognition with steno's engine: recordings or live audio in, text with times out.

    import steno_asr

    with steno_asr.Model("digits-en") as model:
        print(model.transcribe("recording.wav").text)
        with model.stream(sample_rate=16000) as stream:
            for event in stream.events(pieces_of_audio):
                print(event.kind, event.text)

Times are seconds. A Model may be used by any number of threads at once, and other Python threads run while the engine
works. A Stream is for one thread at a time; calls from several wait for each other.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Union

from . import _library
from ._library import Error, call, encode, encode_path, int32, lib, open_found, open_handle

__all__ = ["Alternative", "DamagedRecording", "Error", "Event", "Model", "ModelInfo", "Section", "Stream", "Transcript", "Vad", "Word", "version"]

Samples = Any  # an object with a buffer: bytes, array.array, numpy.ndarray, memoryview
Path = Union[str, "os.PathLike[str]"]
_PIECE = 1 << 16  # samples per call of the engine: between two, signals such as Ctrl-C are handled


def version() -> str:
    """The version of the library, such as "0.1.0"."""
    return _text(lib.steno_version())


@dataclass(frozen=True)
class Word:
    text: str
    start: float
    end: float
    confidence: float  #: 0..1


@dataclass(frozen=True)
class Alternative:
    text: str
    confidence: float
    score: float  #: natural log-probability of the text under the model
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Section:
    """A part of a segment that the model itself has cut (Whisper calls it a segment)."""

    text: str  #: with the blank before it, if the model wrote one
    start: float
    end: float
    words: tuple[Word, ...]
    no_speech: float  #: probability that nobody speaks


@dataclass(frozen=True)
class Event:
    kind: str  #: "speech_start", "partial", "final" or "utterance_end"
    segment: int  #: counts finals from 0
    time: float  #: seconds of audio that the networks had seen when the event was made
    start: float
    end: float
    text: str  #: the whole hypothesis of the segment
    stable: str  #: the beginning of the text that will not change any more
    confidence: float
    words: tuple[Word, ...]
    alternatives: tuple[Alternative, ...]  #: of finals; the first is the best
    sections: tuple[Section, ...]  #: of models that cut recordings themselves
    reason: str | None  #: why a final came: "endpoint", "length", "request", "end" or "backchannel"
    language: str  #: code of the spoken language, "" = not known
    language_probability: float
    emotion: str | None
    sound: str | None


@dataclass(frozen=True)
class Transcript:
    text: str
    segments: tuple[Event, ...]  #: the finals that have text
    duration: float
    language: str  #: detected or given, else the model's
    warning: str | None  #: "truncated": the file ended early

    @property
    def words(self) -> tuple[Word, ...]:
        return tuple(word for segment in self.segments for word in segment.words)


@dataclass(frozen=True)
class ModelInfo:
    dir: str
    name: str
    version: str
    family: str
    language: str
    license: str
    sample_rate: int  #: Hz that the network was trained at
    frame_seconds: float
    chunk_seconds: float
    lookahead_seconds: float
    weight_bytes: int
    stream_bytes: int
    vocab_size: int
    languages: tuple[str, ...]  #: what `language` may name; empty = not known
    detects_language: bool
    translates: bool
    takes_prompt: bool
    takes_hotwords: bool
    cuts: bool  #: the model cuts a recording into sections itself


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else encode(value)


def _words(array: Any, n: int, first: int = 0) -> tuple[Word, ...]:
    return tuple(
        Word(_text(w.text), w.start, w.end, w.confidence) for w in (array[i] for i in range(first, first + n))
    )


def _event(e: _library.Event) -> Event:
    final = e.kind == _library.FINAL
    text: bytes = e.text or b""
    return Event(
        kind=_library.KINDS[e.kind],
        segment=e.segment,
        time=e.time,
        start=e.start,
        end=e.end,
        text=_text(text),
        stable=_text(text if final else text[: e.stable_bytes]),
        confidence=e.confidence,
        words=_words(e.words, e.n_words),
        alternatives=tuple(
            Alternative(_text(a.text), a.confidence, a.score, _words(a.words, a.n_words))
            for a in (e.alternatives[i] for i in range(e.n_alternatives))
        ),
        sections=tuple(
            Section(_text(s.text), s.start, s.end, _words(e.words, s.n_words, s.first_word), s.no_speech)
            for s in (e.sections[i] for i in range(e.n_sections))
        ),
        reason=_library.REASONS[e.reason] if final else None,
        language=_text(e.language),
        language_probability=e.language_probability,
        emotion=e.labels.emotion and _text(e.labels.emotion),
        sound=e.labels.sound and _text(e.labels.sound),
    )


def _options(options: Mapping[str, object] | None) -> Any:
    def value(v: object) -> bytes:
        return encode(str({True: "yes", False: "no"}[v] if isinstance(v, bool) else v))

    rows = [_library.Option(encode(k), value(v)) for k, v in (options or {}).items()]
    return (_library.Option * len(rows))(*rows)


class _Closable:
    """Something that is open until close(), the end of a `with` block, or the end of its life."""

    _close_function = ""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handle: int | None = None

    def _open_handle(self) -> int:
        if self._handle is None:
            raise ValueError(f"the {type(self).__name__.lower()} is closed")
        return self._handle

    def _release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            getattr(lib, self._close_function)(handle)

    def close(self) -> None:
        """Free the memory. May be called again."""
        with self._lock:
            self._release()

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled")

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            try:
                self.close()
            except ValueError:
                pass


class _Shared(_Closable):
    """What streams use: it is closed after them."""

    def __init__(self) -> None:
        super().__init__()
        self._users = 0

    def _join(self) -> int:
        with self._lock:
            handle = self._open_handle()
            self._users += 1
            return handle

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1

    def close(self) -> None:
        """Free the memory. ValueError while streams use it. May be called again."""
        with self._lock:
            if self._users and self._handle is not None:
                raise ValueError(f"{self._users} open streams use this {type(self).__name__.lower()}")
            self._release()


class Vad(_Shared):
    """Tells speech from silence, for Model.stream and Model.transcribe.

    name: "silero-vad" where it was fetched, or a directory with its ONNX file; None: a rule on energy.
    """

    _close_function = "steno_vad_close"

    def __init__(self, name: Path | None = None) -> None:
        super().__init__()
        if name is None:
            self._handle = open_handle("steno_vad_open", None)
        else:
            self._handle = open_found("steno_vad_find", name, "steno_vad_open")

    def __enter__(self) -> Vad:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Model(_Shared):
    """A model, loaded once for any number of streams and threads.

    name: a directory, the name of a fetched model, or None for the default: $STENO_MODEL, else the first fetched model,
    else digits-en. precision: "auto", "fp32", "bf16", "fp16" or "int8". threads: of one stream. cpu: the highest level
    to use. options: those of the model's family, such as {"ctc_weight": 0.3}. grammars: "en=DIR,zh=DIR", which write
    numbers and dates of finals; None: the fetched ones. punctuators: the same of networks that write marks and capitals.
    """

    _close_function = "steno_model_close"

    def __init__(
        self,
        name: Path | None = None,
        *,
        precision: str = "auto",
        threads: int = 1,
        cpu: str | None = None,
        options: Mapping[str, object] | None = None,
        grammars: str | None = None,
        punctuators: str | None = None,
    ) -> None:
        super().__init__()
        opt: _library.ModelOptions = lib.steno_model_options_default()
        number = ctypes.c_uint()
        rows = _options(options)
        if not lib.steno_precision_find(encode(precision), ctypes.byref(number)):
            raise Error("invalid_argument", f"precision: {precision!r} is none of auto, fp32, bf16, fp16, int8")
        opt.precision, opt.threads, opt.cpu = number.value, int32("threads", threads), _bytes(cpu)
        opt.options, opt.n_options = rows, len(rows)
        self._handle = open_found("steno_model_find", name, "steno_model_open", ctypes.byref(opt))
        if grammars is not None:
            call("steno_model_use_grammars", self._handle, _bytes(grammars))
        if punctuators is not None:
            call("steno_model_use_punctuators", self._handle, _bytes(punctuators))
        self.info = self._read_info()

    def _read_info(self) -> ModelInfo:
        i = _library.ModelInfo()
        lib.steno_model_get_info(self._handle, ctypes.byref(i))
        return ModelInfo(
            dir=os.fsdecode(i.dir),
            name=_text(i.name),
            version=_text(i.version),
            family=_text(i.family),
            language=_text(i.language),
            license=_text(i.license),
            sample_rate=i.sample_rate,
            frame_seconds=i.frame_seconds,
            chunk_seconds=i.chunk_seconds,
            lookahead_seconds=i.lookahead_seconds,
            weight_bytes=i.weight_bytes,
            stream_bytes=i.stream_bytes,
            vocab_size=i.vocab_size,
            languages=tuple(_text(i.languages).split()),
            detects_language=i.detects_language,
            translates=i.translates,
            takes_prompt=i.takes_prompt,
            takes_hotwords=i.takes_hotwords,
            cuts=i.cuts,
        )

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def stream(self, sample_rate: int = 0, **settings: Any) -> Stream:
        """Open a stream of live audio; see Stream for the settings."""
        return Stream(self, sample_rate, **settings)

    def transcribe(self, audio: Path | Samples, sample_rate: int | None = None, *, channel: int = 0, **settings: Any) -> Transcript:
        """Transcribe a recording: the path of a file, or samples with their sample_rate.

        channel: of a file, 0 = the mean of all, else counted from 1. Settings are those of Stream.
        """
        if isinstance(audio, (str, os.PathLike)):
            if sample_rate is not None:
                raise TypeError("a file has a sample rate of its own")
            return self._recording(settings, "steno_recording_open", encode_path(audio), int32("channel", channel))
        if sample_rate is None:
            raise TypeError("samples need a sample_rate")
        with self._whole(sample_rate, settings) as stream:
            events = stream.push(audio) + stream.end()
            return self._transcript(events, stream.seconds, None)

    def transcribe_bytes(self, data: Samples, *, channel: int = 0, **settings: Any) -> Transcript:
        """Transcribe a file that lies in memory: bytes, or another object with a buffer."""
        data = data if isinstance(data, bytes) else memoryview(data).tobytes()
        return self._recording(settings, "steno_recording_open_memory", data, len(data), int32("channel", channel))

    def _whole(self, sample_rate: int, settings: Mapping[str, Any]) -> Stream:
        """A stream for a whole recording."""
        whole: dict[str, Any] = {"partials": False, "early": False, "endpointing": not self.info.cuts}
        return Stream(self, sample_rate, **{**whole, **settings})

    def _recording(self, settings: Mapping[str, Any], function: str, *arguments: Any) -> Transcript:
        recording = open_handle(function, *arguments)
        info = _library.RecordingInfo()
        pcm = (ctypes.c_float * _PIECE)()
        n = ctypes.c_size_t(1)
        damage: Error | None = None
        events: list[Event] = []
        try:
            lib.steno_recording_get_info(recording, ctypes.byref(info))
            with self._whole(info.sample_rate, settings) as stream:
                while n.value:
                    n.value = 0
                    try:
                        call("steno_recording_read", recording, pcm, _PIECE, ctypes.byref(n))
                    except Error as e:
                        damage = e
                    if n.value:
                        events += stream._run("steno_stream_push", pcm, n.value)
                    if damage:
                        break
                events += stream.end()
                lib.steno_recording_get_info(recording, ctypes.byref(info))
                result = self._transcript(events, stream.seconds, "truncated" if info.truncated else None)
        finally:
            lib.steno_recording_close(recording)
        if damage:
            raise DamagedRecording(damage, result)
        return result

    def _transcript(self, events: list[Event], duration: float, warning: str | None) -> Transcript:
        segments = tuple(e for e in events if e.kind == "final" and e.text)
        text = ""
        for segment in segments:
            joined = "".join(s.text for s in segment.sections) if segment.sections else segment.text
            text += joined.lstrip(" ") if not text else joined if segment.sections else " " + joined
        language = next((s.language for s in segments if s.language), self.info.language)
        return Transcript(text, segments, duration, language, warning)


class DamagedRecording(Error):
    """A recording could not be read to its end. transcript: of what came before the damage."""

    def __init__(self, error: Error, transcript: Transcript) -> None:
        super().__init__(error.code, str(error))
        self.transcript = transcript

    def __reduce__(self) -> Any:
        return (type(self), (Error(self.code, str(self)), self.transcript))


class Stream(_Closable):
    """Live audio: push samples, read events.

    sample_rate: Hz of the samples, 8000 to 192000; 0 = the model's.
    partials, endpointing: False leaves them out.
    beam, n_best: hypotheses of the search, alternatives in finals; 0 = the model's own.
    language, translate, prompt, prefix, hotwords: what is known of the speech beforehand.
    silence_alone, silence_after, longest: rules for the end of an utterance in seconds; 0 = the model's own.
    early: finals may be begun in the silence before their endpoint, where the model can. They come sooner, and cost
    time where somebody speaks on; False for audio that does not come in real time.
    utterance_end: seconds without a word until an event says so; 0 = never.
    vad: audio without speech does not go through the network; turn_vad: tells silence for the rules.
    word_times: False allows estimates. options: those of the model's family.
    """

    _close_function = "steno_stream_close"

    def __init__(
        self,
        model: Model,
        sample_rate: int = 0,
        *,
        partials: bool = True,
        endpointing: bool = True,
        early: bool = True,
        beam: int = 0,
        n_best: int = 0,
        language: str | None = None,
        translate: bool = False,
        prompt: str | None = None,
        prefix: str | None = None,
        hotwords: str | None = None,
        silence_alone: float = 0,
        silence_after: float = 0,
        longest: float = 0,
        utterance_end: float = 0,
        vad: Vad | None = None,
        turn_vad: Vad | None = None,
        word_times: bool = True,
        options: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__()
        self._used: list[_Shared] = []
        opt: _library.StreamOptions = lib.steno_stream_options_default()
        rows = _options(options)
        opt.sample_rate, opt.beam, opt.n_best = int32("sample_rate", sample_rate), int32("beam", beam), int32("n_best", n_best)
        opt.no_partials, opt.no_endpointing, opt.no_word_times = not partials, not endpointing, not word_times
        opt.endpoint = _library.EndpointRules(silence_alone, silence_after, longest)
        opt.utterance_end = utterance_end
        opt.hints = _library.Hints(
            _bytes(language), translate, _bytes(prompt), _bytes(prefix), _bytes(hotwords)
        )
        opt.options, opt.n_options = rows, len(rows)
        self.sample_rate = sample_rate or model.info.sample_rate
        try:
            handle = self._use(model)
            opt.vad = vad and self._use(vad)
            opt.turn_vad = turn_vad and self._use(turn_vad)
            self._handle = open_handle("steno_stream_open", handle, ctypes.byref(opt))
            lib.steno_stream_set_early(self._handle, early)
        finally:
            if self._handle is None:
                self._release()

    def _use(self, shared: _Shared) -> int:
        if not isinstance(shared, _Shared):
            raise TypeError(f"{shared!r:.40} is neither a Model nor a Vad")
        handle = shared._join()
        self._used.append(shared)
        return handle

    def _release(self) -> None:
        super()._release()
        while self._used:
            self._used.pop()._leave()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run(self, function: str, *arguments: Any) -> list[Event]:
        """Call a function of the stream. Returns the events that wait then."""
        events: list[Event] = []
        with self._lock:
            handle = self._open_handle()
            call(function, handle, *arguments)
            raw = _library.Event()
            while lib.steno_stream_next(handle, ctypes.byref(raw)):
                events.append(_event(raw))
        return events

    def push(self, samples: Samples) -> list[Event]:
        """Append mono samples; returns the events so far.

        samples: an object with a buffer: numpy.float32 or array("f") in [-1,1]; numpy.int16, array("h") or bytes in
        signed 16 bits.
        """
        view = memoryview(samples)
        kind = "h" if view.format in ("B", "b", "c") else view.format.lstrip("@")
        if kind not in ("h", "f") or not view.contiguous or view.ndim != 1:
            raise TypeError(f"samples: float32 or int16 in one dimension, not {view.format!r} in {view.ndim}")
        flat = view.cast("B")
        size = 2 if kind == "h" else 4
        if len(flat) % size:
            raise ValueError(f"samples: {len(flat)} bytes are no whole number of samples of 16 bits")
        function = "steno_stream_push_s16" if kind == "h" else "steno_stream_push"
        events: list[Event] = []
        for at in range(0, max(len(flat), 1), _PIECE * size):
            piece = flat[at : at + _PIECE * size]
            events += self._run(function, piece.tobytes(), len(piece) // size)
        return events

    def finalize(self) -> list[Event]:
        """End the current segment now; the stream goes on."""
        return self._run("steno_stream_finalize")

    def end(self) -> list[Event]:
        """End the audio; the last final is among the events."""
        return self._run("steno_stream_end")

    def events(self, pieces: Iterable[Samples]) -> Iterator[Event]:
        """Push each piece as it comes, and end the audio after the last."""
        for piece in pieces:
            yield from self.push(piece)
        yield from self.end()

    @property
    def seconds(self) -> float:
        """Audio pushed so far."""
        with self._lock:
            return float(lib.steno_stream_samples(self._open_handle())) / self.sample_rate
