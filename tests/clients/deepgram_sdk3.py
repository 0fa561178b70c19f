"""Deepgram's Python SDK 3: an upload and a live stream. deepgram_sdk3.py http://HOST:PORT FILE.wav"""
import sys
import threading
import wave

from deepgram import DeepgramClient, DeepgramClientOptions, LiveOptions, LiveTranscriptionEvents, PrerecordedOptions


def upload(client, path):
    with open(path, "rb") as f:
        options = PrerecordedOptions(model="nova-2", punctuate=True, utterances=True)
        got = client.listen.rest.v("1").transcribe_file({"buffer": f.read()}, options)
    return got.results.channels[0].alternatives[0].transcript


def live(client, path):
    texts, over = [], threading.Event()

    def on_result(_, result, **__):
        text = result.channel.alternatives[0].transcript
        if result.is_final and text:
            texts.append(text)

    connection = client.listen.websocket.v("1")
    connection.on(LiveTranscriptionEvents.Transcript, on_result)
    connection.on(LiveTranscriptionEvents.Metadata, lambda *_, **__: over.set())
    with wave.open(path) as w:
        options = LiveOptions(model="nova-2", encoding="linear16", sample_rate=w.getframerate(), channels=1, interim_results=True,
                              utterance_end_ms="1000", vad_events=True, endpointing=300)
        assert connection.start(options)
        while pcm := w.readframes(800):
            connection.send(pcm)
    connection.finish()
    over.wait(30)
    return " ".join(texts)


def main():
    client = DeepgramClient("none-is-asked-for-here", DeepgramClientOptions(url=sys.argv[1], options={"keepalive": "true"}))
    print("upload", upload(client, sys.argv[2]))
    print("live", live(client, sys.argv[2]))


main()
