#!/usr/bin/env python3
"""LiveKit's speech to text plugins against a running stenod (tests/integration/test_clients_large.py runs it in
build/venv-clients). Prints a line "NAME TEXT" for each way to use them, or "NAME error: WHY".

    livekit_stt.py http://127.0.0.1:8080 RECORDING.wav"""
import asyncio
import sys
import wave

import aiohttp
from livekit import rtc
from livekit.agents import stt
from livekit.plugins import deepgram, openai

BASE, PATH = sys.argv[1:]
with wave.open(PATH, "rb") as _w:
    PCM, RATE = _w.readframes(_w.getnframes()), _w.getframerate()
QUIET = bytes(2 * 2 * RATE)  # 2 s: turns end in it


def frames(data, ms=50):
    n = RATE * ms // 1000 * 2
    for i in range(0, len(data), n):
        part = data[i:i + n]
        yield rtc.AudioFrame(data=part, sample_rate=RATE, num_channels=1, samples_per_channel=len(part) // 2)


async def live(service, data, linger=None):
    """The finals of a stream that gets data four times as fast as it was said. linger: a client that never ends its
    input, but leaves after so many seconds. The speech must have a beginning, interim transcripts and an end."""
    kinds, finals = [], []
    stream = service.stream()

    async def listen():
        async for event in stream:
            kinds.append(event.type)
            if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT and event.alternatives[0].text:
                finals.append(event.alternatives[0].text)
    listening = asyncio.create_task(listen())
    for frame in frames(data):
        stream.push_frame(frame)
        await asyncio.sleep(frame.duration / 4)
    if linger is None:
        stream.end_input()
        await asyncio.wait_for(listening, 60)
    else:
        await asyncio.sleep(linger)
    await stream.aclose()
    for want in (stt.SpeechEventType.START_OF_SPEECH, stt.SpeechEventType.INTERIM_TRANSCRIPT, stt.SpeechEventType.END_OF_SPEECH):
        assert want in kinds, (want, kinds)
    return " ".join(finals)


async def at_once(service):
    return (await service.recognize(list(frames(PCM)))).alternatives[0].text


async def main():
    async with aiohttp.ClientSession() as session:  # shared, as in an agent
        v1 = {"api_key": "any", "base_url": BASE + "/v1/listen", "http_session": session}
        v2 = {"api_key": "any", "base_url": BASE.replace("http", "ws", 1) + "/v2/listen", "http_session": session}
        oai = {"api_key": "any", "base_url": BASE + "/v1"}

        def realtime(**more):
            service = openai.STT(**oai, use_realtime=True, **more)
            service._session = session  # else it is the agent's, and there is none here
            return service

        ways = {
            "deepgram-recognize": lambda: at_once(deepgram.STT(**v1)),
            "deepgram-stream": lambda: live(deepgram.STT(**v1, endpointing_ms=300), PCM + QUIET),
            "deepgram-utterance-end": lambda: live(deepgram.STT(**v1, utterance_end_ms=1000), PCM + QUIET),
            "deepgram-flux": lambda: live(deepgram.STTv2(**v2, eager_eot_threshold=0.5), PCM + QUIET),
            "openai-recognize": lambda: at_once(openai.STT(**oai)),
            "openai-whisper-1": lambda: at_once(openai.STT(**oai, model="whisper-1")),
            "openai-realtime": lambda: live(realtime(), PCM + QUIET, 3),
            "openai-realtime-whisper": lambda: live(realtime(model="gpt-realtime-whisper"), PCM + QUIET, 3),
        }
        for name, way in ways.items():
            try:
                print(name, await asyncio.wait_for(way(), 120), flush=True)
            except Exception as e:  # pylint: disable=broad-exception-caught
                print(f"{name} error: {e!r}", flush=True)


asyncio.run(main())
