#!/usr/bin/env python3
"""sherpa-onnx's OnlineRecognizer behind the protocol of its sherpa-onnx-online-websocket-server, which its wheel does not have.
The rules are that program's: every 10 ms all streams with a full window are decoded, at most 5 in a run, on one thread; a
result is sent for each decoded stream; 0.8 s of silence follow a recording. Float32 samples in, "Done" at the end.

    sherpa_server.py MODEL fp32|int8 BEAM"""
import asyncio
import concurrent.futures
import json
import os
import sys

import numpy as np
import sherpa_onnx
import websockets

RATE, MAX_BATCH, LOOP, TAIL = 16000, 5, 0.01, 0.8


class Server:
    def __init__(self, model, form, beam):
        end = ".int8.onnx" if form == "int8" else ".onnx"
        self.recognizer = sherpa_onnx.OnlineRecognizer.from_transducer(
            tokens=os.path.join(model, "tokens.txt"), encoder=os.path.join(model, "encoder" + end),
            decoder=os.path.join(model, "decoder.onnx"), joiner=os.path.join(model, "joiner" + end), num_threads=1,
            decoding_method="modified_beam_search" if beam > 1 else "greedy_search", max_active_paths=beam)
        self.streams = {}  # stream -> its queue of results
        self.busy = set()  # streams that the worker decodes
        self.worker = concurrent.futures.ThreadPoolExecutor(1)

    def decode(self, streams):
        self.recognizer.decode_streams(streams)
        return [self.recognizer.get_result(s) for s in streams]

    async def loop(self):
        while True:
            ready = [s for s in self.streams if self.recognizer.is_ready(s)][:MAX_BATCH]
            if not ready:
                await asyncio.sleep(LOOP)
                continue
            self.busy = set(ready)
            texts = await asyncio.get_running_loop().run_in_executor(self.worker, self.decode, ready)
            self.busy = set()
            for s, text in zip(ready, texts):
                if s in self.streams:
                    self.streams[s].put_nowait(text)

    async def results(self, ws, stream, queue):
        while (text := await queue.get()) is not None:
            await ws.send(json.dumps({"text": text, "is_final": False}))

    async def session(self, ws):
        stream, queue = self.recognizer.create_stream(), asyncio.Queue()
        self.streams[stream] = queue
        sender = asyncio.create_task(self.results(ws, stream, queue))
        try:
            async for m in ws:
                if isinstance(m, str):
                    break
                stream.accept_waveform(RATE, np.frombuffer(m, np.float32))
            stream.accept_waveform(RATE, np.zeros(int(TAIL * RATE), np.float32))
            stream.input_finished()
            while stream in self.busy or self.recognizer.is_ready(stream) or not queue.empty():
                await asyncio.sleep(LOOP)
            await asyncio.sleep(0)
            await ws.send(json.dumps({"text": self.recognizer.get_result(stream), "is_final": True}))
            await ws.send("Done!")
        finally:
            del self.streams[stream]
            queue.put_nowait(None)
            await sender

    async def serve(self):
        async with websockets.serve(self.session, "127.0.0.1", 0, max_size=None, ping_interval=None) as s:
            print(s.sockets[0].getsockname()[1], flush=True)
            await self.loop()


if __name__ == "__main__":
    asyncio.run(Server(sys.argv[1], sys.argv[2], int(sys.argv[3])).serve())
