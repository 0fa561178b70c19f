// openai's and Deepgram's packages for Node.js against a running stenod. tests/integration/test_clients_large.py runs it
// from build/node-clients, where its packages are. Prints a line "NAME TEXT" for each way to use them, or
// "NAME error: WHY".
//
//     node node_clients.mjs http://127.0.0.1:8080 RECORDING.wav
import fs from "node:fs";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { DeepgramClient } from "@deepgram/sdk";

const [base, path] = process.argv.slice(2);
const wav = fs.readFileSync(path);
const rate = wav.readInt32LE(24);
const pcm = wav.subarray(44);
const openai = new OpenAI({ apiKey: "any", baseURL: base + "/v1" });
const deepgram = new DeepgramClient({
    apiKey: "any",
    environment: { base, production: base.replace("http", "ws"), agent: base.replace("http", "ws") },
});

function* pieces(n = 3200) {
    for (let i = 0; i < pcm.length; i += n)
        yield pcm.subarray(i, i + n);
}

async function openaiUpload() {
    const got = await openai.audio.transcriptions.create({ file: fs.createReadStream(path), model: "whisper-1" });
    return got.text;
}

async function openaiStream() {
    const events = await openai.audio.transcriptions.create(
        { file: fs.createReadStream(path), model: "gpt-4o-mini-transcribe", stream: true });
    let text = "", done = "";
    for await (const e of events) {
        if (e.type === "transcript.text.delta")
            text += e.delta;
        if (e.type === "transcript.text.done")
            done = e.text;
    }
    if (text.trim() !== done.trim())
        throw new Error(`deltas "${text}", text "${done}"`);
    return done;
}

function openaiRealtime() {
    return new Promise((resolve, reject) => {
        // always wss: the port takes TLS too
        const rt = new OpenAIRealtimeWS({ model: "gpt-realtime" }, openai);
        rt.on("error", reject);
        rt.on("session.created", () => {
            rt.send({ type: "session.update", session: { type: "transcription", audio: { input: {
                format: { type: "audio/pcm", rate }, turn_detection: null, transcription: { model: "gpt-4o-transcribe", language: "en" } } } } });
            for (const p of pieces())
                rt.send({ type: "input_audio_buffer.append", audio: p.toString("base64") });
            rt.send({ type: "input_audio_buffer.commit" });
        });
        rt.on("conversation.item.input_audio_transcription.completed", (e) => {
            rt.close();
            resolve(e.transcript);
        });
    });
}

async function deepgramUpload() {
    const got = await deepgram.listen.v1.media.transcribeFile(fs.createReadStream(path), { model: "nova-3", punctuate: true });
    return got.results.channels[0].alternatives[0].transcript;
}

// Finals until Metadata, which ends a live stream.
async function deepgramLive() {
    const c = await deepgram.listen.v1.connect({ model: "nova-3", encoding: "linear16", sample_rate: rate,
        interim_results: "true", punctuate: "true", endpointing: 300 });
    const texts = [];
    let interim = 0;
    const ended = new Promise((resolve, reject) => {
        c.on("error", reject);
        c.on("message", (m) => {
            if (m.type === "Results" && m.is_final && m.channel.alternatives[0].transcript)
                texts.push(m.channel.alternatives[0].transcript);
            interim += m.type === "Results" && !m.is_final;
            if (m.type === "Metadata")
                resolve();
        });
    });
    c.connect();
    await c.waitForOpen();
    for (const p of pieces())
        c.sendMedia(p);
    c.sendCloseStream({ type: "CloseStream" });
    await ended;
    c.close();
    if (!interim)
        throw new Error("no interim results");
    return texts.join(" ");
}

const ways = { "openai-upload": openaiUpload, "openai-stream": openaiStream, "openai-realtime": openaiRealtime,
    "deepgram-upload": deepgramUpload, "deepgram-live": deepgramLive };
for (const [name, way] of Object.entries(ways)) {
    const late = new Promise((_, reject) => setTimeout(() => reject(new Error("no answer in 60 s")), 60000).unref());
    try {
        console.log(name, await Promise.race([way(), late]));
    } catch (e) {
        console.log(name, "error:", e.message);
    }
}
process.exit(0);
