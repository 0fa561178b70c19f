#!/usr/bin/env python3
"""The five best hypotheses of ESPnet, espnet_onnx and steno for ESPnet2 checkpoints.

    espnet_compare.py [--steno PROGRAM] [--beam 5] [--ctc 0.3] [--lm 0.3] WAV ZIP...

Run it with build/venv-espnet/bin/python, which tests/espnet/venv.sh makes (pinned versions). ESPnet builds the model from
the archive's own config.yaml and checkpoint (Speech2Text), with the defaults of its options for keys that are missing;
espnet_onnx and steno (--compat espnet-onnx) take the directory that `steno convert` writes. One line for each archive: how many
of the best hypotheses have the token ids of ESPnet's, and the largest difference of their scores; then steno and espnet_onnx with
each other. Exit status 1: the ids of ESPnet and steno differ.

ESPnet has no batch form of RNN decoders: its search scores with CTC in another order, and hypotheses of coverage attentions share
one list of weights. Such models agree with --ctc 0 and --beam 1; with other settings steno agrees with espnet_onnx. ESPnet's
transducers run in double precision, because its sum over frames is off by more than 1e-3 in single precision.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/espnet"))

from generate import OnnxSpeech2Text, Speech2Text, np, repaired_split, rows_of, soundfile, torch, yaml  # noqa: E402
from generate import OnnxRNNDecoder  # noqa: E402
from espnet2.tasks.asr import ASRTask  # noqa: E402
from espnet2.tasks.lm import LMTask  # noqa: E402


def complete(path, task, root, **more):
    """config.yaml with the defaults of ESPnet's options; statistics, which the checkpoint has, from a file of zeros."""
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    full = {**task.get_default_config(), **more, **config}
    if full.get("normalize") == "global_mvn":
        bands = full["frontend_conf"].get("n_mels", 80)
        np.savez(root / "zeros.npz", count=np.array(1), sum=np.zeros(bands), sum_square=np.ones(bands))
        full["normalize_conf"] = dict(full["normalize_conf"], stats_file=str(root / "zeros.npz"))
    if full.get("bpemodel"):
        full["bpemodel"] = next((str(p) for p in root.rglob(Path(full["bpemodel"]).name)), None)
    if isinstance(full.get("token_list"), str):
        full["token_list"] = str(next(root.rglob(Path(full["token_list"]).name)))
    path.write_text(yaml.safe_dump(full), encoding="utf-8")
    return str(path)


def by_espnet(archive, root, o, x):
    with zipfile.ZipFile(archive) as z:
        z.extractall(root)
    meta = yaml.safe_load((root / "meta.yaml").read_text())
    files, yamls = meta["files"], meta["yaml_files"]
    options = dict(asr_train_config=complete(root / yamls["asr_train_config"], ASRTask, root),
                   asr_model_file=str(root / files["asr_model_file"]), beam_size=o.beam, ctc_weight=o.ctc,
                   lm_weight=o.lm, penalty=0.0, nbest=5)  # fmt: skip
    if "lm_file" in files:
        tokens = yaml.safe_load(Path(options["asr_train_config"]).read_text())["token_list"]
        options.update(lm_train_config=complete(root / yamls["lm_train_config"], LMTask, root, token_list=tokens),
                       lm_file=str(root / files["lm_file"]))  # fmt: skip
    transducer = yaml.safe_load(Path(options["asr_train_config"]).read_text())["decoder"] == "transducer"
    if transducer:
        torch.set_default_dtype(torch.float64)
    try:
        s = Speech2Text(**options)
        with torch.no_grad():
            if transducer:
                s.asr_model.double()
                if s.beam_search_transducer.lm is not None:
                    s.beam_search_transducer.lm.double()
                s.beam_search_transducer.nbest = 5
            speech = torch.from_numpy(x.astype(np.float64 if transducer else np.float32))[None]
            enc, _ = s.asr_model.encode(speech, torch.tensor([len(x)]))
            return rows_of(s.beam_search_transducer(enc[0]) if transducer else s.beam_search(enc[0]))
    finally:
        torch.set_default_dtype(torch.float32)


def by_espnet_onnx(out, o, x):
    here, split = os.getcwd(), OnnxRNNDecoder._split
    os.chdir(out)
    OnnxRNNDecoder._split = repaired_split  # of 0.2.1, for decoders of two layers
    try:
        s = OnnxSpeech2Text(model_dir=".")
        if not s.config.transducer.use_transducer_decoder:
            s.config.beam_search.beam_size = o.beam
            s._build_beam_search(s.scorers, dict(decoder=1 - o.ctc, ctc=o.ctc, length_bonus=0.0, lm=o.lm))
        enc = s.encoder(speech=x[None], speech_length=np.array([len(x)]))[0]
        return rows_of(s.beam_search((enc[0] if isinstance(enc, tuple) else enc)[0]))
    finally:
        OnnxRNNDecoder._split = split
        os.chdir(here)


def by_steno(out, o, wav, compat):
    conf = yaml.safe_load((out / "config.yaml").read_text())
    args = ["--beam", o.beam, "--nbest", min(5, o.beam)]
    args += ["--format", "nbest", "--compat", "espnet-onnx"] if compat else ["--format", "json", "--no-endpoint"]
    if not conf["transducer"]["use_transducer_decoder"]:
        args += ["--ctc-weight", o.ctc, "--penalty", 0, "--maxlenratio", 0]
    if conf["lm"]["use_lm"]:
        args += ["--lm-weight", o.lm]
    p = subprocess.run([o.steno, "transcribe", "--model", out, *map(str, args), wav], capture_output=True, text=True, check=True)
    got = json.loads(p.stdout)
    return [dict(yseq=h["token_ids"], score=h["score"]) for h in got["nbest"]] if "nbest" in got else got


def compare(want, got):
    if isinstance(got, str):
        return got, False
    inner = [[i for i in h["yseq"]] for h in want], [[i for i in h["yseq"]] for h in got]
    n = next((i for i, (a, b) in enumerate(zip(*inner)) if a != b), min(map(len, inner)))
    most = max(abs(a["score"] - b["score"]) for a, b in zip(want[:n], got[:n])) if n else float("nan")
    return f"{n} of {len(want)} equal, scores {most:.1e}", n == len(want) and len(want) == len(got)


def attempt(call, *args):
    try:
        return call(*args)
    except Exception as e:  # noqa: B902 - the line of the table says it
        if os.environ.get("TRACE"):
            raise
        return f"{type(e).__name__}: {str(e)[:100]}"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--steno", default=str(ROOT / "build/release/steno"))
    p.add_argument("--beam", type=int, default=5)
    p.add_argument("--ctc", type=float, default=0.3)
    p.add_argument("--lm", type=float, default=0.3)
    p.add_argument("wav", type=Path)
    p.add_argument("zip", type=Path, nargs="+")
    o = p.parse_args()
    sys.argv[1:] = []  # ESPnet's options read it too
    x, rate = soundfile.read(o.wav, dtype="float32")
    assert rate == 16000 and x.ndim == 1, "16 kHz, one channel"
    failed = 0
    for archive in o.zip:
        with tempfile.TemporaryDirectory() as tmp:
            out = Path(tmp) / "steno"
            subprocess.run([o.steno, "convert", archive, "-o", out], check=True, capture_output=True)
            want = attempt(by_espnet, archive.resolve(), Path(tmp) / "espnet", o, x)
            if isinstance(want, str):
                print(f"{archive.stem}: ESPnet: {want}")
                failed += 1
                continue
            results = {"espnet_onnx": attempt(by_espnet_onnx, out, o, x),
                       "steno": attempt(by_steno, out, o, o.wav.resolve(), True)}  # fmt: skip
            said = {name: compare(want, got) for name, got in results.items()}
            if not isinstance(results["espnet_onnx"], str):
                said["steno and espnet_onnx"] = compare(results["espnet_onnx"], results["steno"])
            failed += not said["steno"][1]
            print(f"{archive.stem} ({len(want[0]['yseq'])} tokens): " + "; ".join(f"{k}: {v[0]}" for k, v in said.items()), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
