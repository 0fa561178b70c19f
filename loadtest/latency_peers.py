"""Other live servers for latency.py: each adapter sends a clip as steno's client does and gives what the server shows as steno's messages.

An adapter is a coroutine (url, pcm, way): [(seconds since the first sample would have been spoken, message)]. A message is a partial or a final
of one segment with all of the clip's text, since these servers cut it in other places; there are no words with times in it. A final is the first
message in which the server calls all of its text final."""
import asyncio
import json
import time
import uuid

import websockets

RATE, STEP, AFTER = 16000, 320, 3.0


async def pace(begin, pcm, send, finish, way):
    """Send a clip and the zeros behind it as they would be spoken. With the way `finalize` the client ends it 0.2 s after its last sound, since
    these servers have no other word for that."""
    sound = pcm.tobytes() + bytes(int(AFTER * RATE) * 2)
    for i in range(0, len(sound), 2 * STEP):
        due = (i // 2 + STEP) / RATE
        await asyncio.sleep(max(0, begin + due - time.monotonic()))
        if way == "finalize" and due >= len(pcm) / RATE + 0.2:
            break
        await send(sound[i:i + 2 * STEP])
    await finish()


def message(text, final, reason):
    return {"type": "final" if final else "partial", "segment": 0, "text": " ".join(text.split()), "reason": reason}


async def collect(ws, begin, read, got):
    try:
        async for m in ws:
            shown = read(json.loads(m)) if isinstance(m, str) else None
            if shown:
                got.append((time.monotonic() - begin, shown))
    except websockets.ConnectionClosed:
        pass


def ended(got):
    """Text that the server never called final is one at the end of the session, as steno's."""
    if got and got[-1][1]["type"] != "final":
        got.append((got[-1][0], message(got[-1][1]["text"], True, "end")))
    return got


async def whisper_live(url, pcm, way):
    """WhisperLive (package whisper-live): the last segments of the transcript, each completed or not; END_OF_AUDIO closes."""
    got = []

    def read(m):
        segments = m.get("segments")
        return segments and message("".join(s["text"] for s in segments), all(s.get("completed") for s in segments), "endpoint")

    async with websockets.connect(url, max_size=None) as ws:
        await ws.send(json.dumps({"uid": str(uuid.uuid4()), "language": "en", "task": "transcribe", "model": "tiny.en", "use_vad": True,
                                  "audio_format": "int16"}))
        while json.loads(await ws.recv()).get("message") != "SERVER_READY":
            pass
        begin = time.monotonic()
        listening = asyncio.create_task(collect(ws, begin, read, got))
        await pace(begin, pcm, ws.send, lambda: ws.send(b"END_OF_AUDIO"), way)
        await asyncio.wait([listening], timeout=5)
        listening.cancel()
    return ended(got)


async def whisperlivekit(url, pcm, way):
    """WhisperLiveKit (package whisperlivekit, --pcm-input): lines that stay and a buffer that may change; an empty message ends the audio."""
    got, last = [], [""]

    def read(m):
        if m.get("type") == "ready_to_stop":
            return message(last[0], True, "request")
        if "lines" not in m:
            return None
        lines = " ".join(x.get("text") or "" for x in m["lines"])
        rest = m.get("buffer_transcription") or ""
        last[0] = lines + " " + rest
        return last[0].strip() and message(last[0], not rest.strip(), "endpoint")

    async with websockets.connect(url, max_size=None) as ws:
        begin = time.monotonic()
        listening = asyncio.create_task(collect(ws, begin, read, got))
        await pace(begin, pcm, ws.send, lambda: ws.send(b""), way)
        await asyncio.wait([listening], timeout=AFTER + 10)
        listening.cancel()
    return ended(got)


PEERS = {"whisper-live": whisper_live, "whisperlivekit": whisperlivekit}
