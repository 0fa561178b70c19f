"""Deepgram's Python SDK 7: an upload, a live stream and Flux turns. deepgram_sdk7.py http://HOST:PORT FILE.wav"""
import sys
import threading
import wave

from deepgram import DeepgramClient
from deepgram.core.events import EventType
from deepgram.environment import DeepgramClientEnvironment


def final(m):
    return m.channel.alternatives[0].transcript if m.type == "Results" and m.is_final else ""


def turn(m):
    return m.transcript if m.type == "TurnInfo" and m.event == "EndOfTurn" else ""


def stream(path, text_of, connect, finalize=False, **options):
    told = []
    with wave.open(path) as w, connect(encoding="linear16", sample_rate=w.getframerate(), **options) as connection:
        connection.on(EventType.MESSAGE, told.append)
        listener = threading.Thread(target=connection.start_listening, daemon=True)
        listener.start()
        while pcm := w.readframes(800):
            connection.send_media(pcm)
        if finalize:
            connection.send_finalize()
        connection.send_close_stream()
        listener.join(30)
    return " ".join(filter(None, map(text_of, told)))


def main():
    url, path = sys.argv[1:]
    ws = url.replace("http", "ws")
    environment = DeepgramClientEnvironment(base=url, production=ws, agent=ws, agent_rest=url)
    client = DeepgramClient(api_key="none-is-asked-for-here", environment=environment)
    with open(path, "rb") as f:
        got = client.listen.v1.media.transcribe_file(request=f.read(), model="nova-3", utterances=True, paragraphs=True)
    print("upload", got.results.channels[0].alternatives[0].transcript)
    print("live", stream(path, final, client.listen.v1.connect, True, model="nova-3", interim_results=True, utterance_end_ms=1000))
    print("flux", stream(path, turn, client.listen.v2.connect, model="flux-general-en", eager_eot_threshold=0.4, eot_threshold=0.8))


main()
