#!/usr/bin/env python3
"""pipecat's speech services against a running stenod (tests/integration/test_clients_large.py runs it in
build/venv-clients). Prints a line "NAME TEXT" for each service, or "NAME error: WHY".

    pipecat_stt.py http://127.0.0.1:8080 RECORDING.wav"""
import asyncio
import sys
import wave

from loguru import logger
from pipecat.frames.frames import (ErrorFrame, InputAudioRawFrame, InterimTranscriptionFrame, TranscriptionFrame,
                                   VADUserStartedSpeakingFrame, VADUserStoppedSpeakingFrame)
from pipecat.pipeline.worker import PipelineParams
from pipecat.services.deepgram.flux.stt import DeepgramFluxSTTService
from pipecat.services.deepgram.stt import DeepgramSTTService
from pipecat.services.openai.stt import OpenAIRealtimeSTTService, OpenAISTTService
from pipecat.tests.utils import SleepFrame, run_test

BASE, PATH = sys.argv[1:]
WS = BASE.replace("http", "ws", 1)
with wave.open(PATH, "rb") as _w:
    PCM, RATE = _w.readframes(_w.getnframes()), _w.getframerate()
QUIET = bytes(2 * 2 * RATE)  # 2 s: turns end in it


def conversation(vad):
    """The frames of a pipeline, four times as fast as they were said, with those of a VAD around the speech if asked."""
    n = RATE // 50 * 2  # 20 ms, as pipecat's transports give them
    out = [VADUserStartedSpeakingFrame()] if vad else []
    for data in (PCM, QUIET):
        for i in range(0, len(data), n):
            out.append(InputAudioRawFrame(audio=data[i:i + n], sample_rate=RATE, num_channels=1))
            if i // n % 5 == 4:
                out.append(SleepFrame(sleep=0.025))
        if vad and data is PCM:
            out += [VADUserStoppedSpeakingFrame(), SleepFrame(sleep=1)]
    return out + [SleepFrame(sleep=3)]


async def run(service, vad, interim=True):
    down, up = await run_test(service, frames_to_send=conversation(vad), start_timeout=20,
                              pipeline_params=PipelineParams(audio_in_sample_rate=RATE))
    errors = [f.error for f in [*down, *up] if isinstance(f, ErrorFrame)]
    assert not errors, errors
    assert not interim or any(isinstance(f, InterimTranscriptionFrame) for f in down), "no interim transcript"
    return " ".join(f.text for f in down if isinstance(f, TranscriptionFrame))


async def main():
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    realtime = {"api_key": "any", "base_url": WS + "/v1/realtime"}
    ways = {
        "deepgram": lambda: run(DeepgramSTTService(api_key="any", base_url=BASE), True),
        "deepgram-no-vad": lambda: run(DeepgramSTTService(api_key="any", base_url=BASE), False),
        "deepgram-flux": lambda: run(DeepgramFluxSTTService(api_key="any", url=WS + "/v2/listen"), False),
        "openai": lambda: run(OpenAISTTService(api_key="any", base_url=BASE + "/v1"), True, interim=False),
        "openai-logprobs": lambda: run(OpenAISTTService(api_key="any", base_url=BASE + "/v1", include_prob_metrics=True), True, interim=False),
        "openai-realtime": lambda: run(OpenAIRealtimeSTTService(**realtime), True),
        "openai-realtime-server-vad": lambda: run(
            OpenAIRealtimeSTTService(**realtime, turn_detection={"type": "server_vad"},
                                     settings=OpenAIRealtimeSTTService.Settings(model="gpt-transcribe")), False),
    }
    for name, way in ways.items():
        try:
            print(name, await asyncio.wait_for(way(), 120), flush=True)
        except Exception as e:  # pylint: disable=broad-exception-caught
            print(f"{name} error: {e!r}", flush=True)


asyncio.run(main())
