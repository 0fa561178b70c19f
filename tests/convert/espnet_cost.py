#!/usr/bin/env python3
"""What espnet_onnx's export and `steno convert` cost for one full-size model, and how many nodes they write.

    espnet_cost.py OUT [--steno PROGRAM] [--small]

Run it with build/venv-espnet/bin/python (tests/espnet/venv.sh). It makes OUT/model.zip: a Conformer of 12 layers of 512, a
Transformer decoder of 6, a Transformer language model of 16, 5,000 tokens, random weights. Then, each in a process of its own:
ESPnet builds the model from the archive and espnet_onnx exports it (default options but opset 13, plain modules), and `steno
convert` converts the archive. Processor time and peak memory are those of the process; the export's are without and with the
import of its packages. Nodes are counted in the files, and in what `steno optimize` makes of each directory.
"""

import argparse
import collections
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/espnet"))
sys.path.insert(0, str(ROOT / "tests/convert"))
FULL = dict(d=512, heads=8, ff=2048, blocks=12, decoder=6, embed=128, lm=16, vocab=5000)
SMALL = dict(d=32, heads=2, ff=64, blocks=2, decoder=2, embed=16, lm=2, vocab=100)


def make(out, size):
    from generate import torch, yaml  # noqa: F401
    from espnet2.asr.ctc import CTC
    from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
    from espnet2.asr.encoder.conformer_encoder import ConformerEncoder
    from espnet2.lm.transformer_lm import TransformerLM

    conf = dict(output_size=size["d"], attention_heads=size["heads"], linear_units=size["ff"], num_blocks=size["blocks"],
                macaron_style=True, rel_pos_type="latest", pos_enc_layer_type="rel_pos",
                selfattention_layer_type="rel_selfattn", cnn_module_kernel=31)  # fmt: skip
    dec = dict(attention_heads=size["heads"], linear_units=size["ff"], num_blocks=size["decoder"])
    lm = dict(pos_enc=None, embed_unit=size["embed"], att_unit=size["d"], head=size["heads"], unit=size["ff"], layer=size["lm"])
    n = size["vocab"]
    tokens = ["<blank>", "<unk>", *(f"t{i}" for i in range(n - 3)), "<sos/eos>"]
    config = dict(token_list=tokens, token_type="word", frontend="default", frontend_conf=dict(fs="16k", hop_length=160),
                  normalize="utterance_mvn", normalize_conf={}, encoder="conformer", encoder_conf=conf, decoder="transformer",
                  decoder_conf=dec, model_conf=dict(ctc_weight=0.3))  # fmt: skip
    parts = dict(encoder=ConformerEncoder(80, **conf), decoder=TransformerDecoder(n, size["d"], **dec), ctc=CTC(n, size["d"]))
    meta = dict(files=dict(asr_model_file="exp/asr/model.pth", lm_file="exp/lm/model.pth"),
                yaml_files=dict(asr_train_config="exp/asr/config.yaml", lm_train_config="exp/lm/config.yaml"))  # fmt: skip
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("meta.yaml", yaml.safe_dump(meta))
        z.writestr("exp/asr/config.yaml", yaml.safe_dump(config))
        z.writestr("exp/lm/config.yaml", yaml.safe_dump(dict(lm="transformer", lm_conf=lm, token_list=tokens)))
        for name, modules in (("asr", parts), ("lm", dict(lm=TransformerLM(n, **lm)))):
            b = io.BytesIO()
            torch.save(torch.nn.ModuleDict(modules).state_dict(), b)
            z.writestr(f"exp/{name}/model.pth", b.getvalue())


def spent():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return dict(processor=u.ru_utime + u.ru_stime, wall=time.time(), peak_mib=u.ru_maxrss / 1024)


def export(archive, out):
    """In a process of its own: ESPnet's model from the archive, exported. Prints what was spent."""
    began = time.time()
    from espnet_compare import ASRTask, LMTask, Speech2Text, complete, torch, yaml
    from generate import DefaultEncoder, exporter, get_pos_emb

    def get_encoder(model, frontend, preencoder, config, convert_map):
        width = model.output_size()
        model.embed.out[-1] = get_pos_emb(model.embed.out[-1], config["max_seq_len"])
        wrapped = DefaultEncoder(model, frontend, **config)
        wrapped.get_output_size = lambda: width
        return wrapped

    imported = spent()
    with tempfile.TemporaryDirectory() as tmp:
        root = Path(tmp)
        with zipfile.ZipFile(archive) as z:
            z.extractall(root)
        sys.argv[1:] = []
        s = Speech2Text(asr_train_config=complete(root / "exp/asr/config.yaml", ASRTask, root), asr_model_file=str(root / "exp/asr/model.pth"),
                        lm_train_config=complete(root / "exp/lm/config.yaml", LMTask, root), lm_file=str(root / "exp/lm/model.pth"))  # fmt: skip
        exporter.get_encoder = get_encoder
        exporter.save_config = lambda c, p: None
        exporter.update_model_path = lambda *a: None
        (root / "map.yml").write_text("{}\n")
        m = exporter.ASRModelExport(cache_dir=Path(out), convert_map=root / "map.yml")
        m.set_export_config(opset_version=13, max_seq_len=512)
        with torch.no_grad():
            m.export(s, tag_name="m", quantize=False, optimize=False)
    end = spent()
    print(json.dumps(dict(imports=dict(processor=imported["processor"], wall=imported["wall"] - began),
                          whole=dict(processor=end["processor"], wall=end["wall"] - began, peak_mib=end["peak_mib"]))))  # fmt: skip


def child(args):
    """Processor time, wall time and peak memory of a program. wait4 would count the memory of this process too."""
    began, peak = time.time(), 0
    p = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        pid, status, u = os.wait4(p.pid, os.WNOHANG)
        if pid:
            break
        with open(f"/proc/{p.pid}/status", encoding="utf-8") as f:
            peak = max([peak, *(int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM"))])
        time.sleep(0.01)
    assert status == 0, args
    return dict(processor=u.ru_utime + u.ru_stime, wall=time.time() - began, peak_mib=peak)


def nodes(path):
    import onnx

    count = collections.Counter(n.op_type for n in onnx.load(path, load_external_data=False).graph.node)
    return count.total(), count.total() - count["Constant"]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("out", type=Path)
    p.add_argument("--steno", default=str(ROOT / "build/release/steno"))
    p.add_argument("--small", action="store_true")
    p.add_argument("--export", type=Path, help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.export:
        return export(o.export, o.out)
    o.out.mkdir(parents=True, exist_ok=True)
    archive = o.out / "model.zip"
    if not archive.exists():
        make(archive, SMALL if o.small else FULL)
    print(f"model.zip: {archive.stat().st_size / 1e6:.0f} MB")
    p = subprocess.run([sys.executable, __file__, str(o.out / "espnet_onnx"), "--export", archive], capture_output=True, text=True, check=False)
    print("espnet_onnx:", p.stdout.strip().splitlines()[-1] if p.returncode == 0 else p.stderr[-2000:])
    print("steno convert:", child([o.steno, "convert", archive, "-o", o.out / "steno"]))
    folders = {"espnet_onnx": o.out / "espnet_onnx/m/full", "steno": o.out / "steno/full"}
    for name in ("default_encoder", "ctc", "xformer_decoder", "transformer_lm"):
        row = [name]
        for folder in folders.values():
            file = next(folder.glob("*encoder.onnx")) if name == "default_encoder" else folder / f"{name}.onnx"
            optimized = o.out / "optimized.onnx"
            subprocess.run([o.steno, "optimize", file, "-o", optimized], check=True, capture_output=True)
            row += ["%d, %d without Constant" % nodes(file), "%d" % nodes(optimized)[0]]
        print(" | ".join(row), flush=True)


if __name__ == "__main__":
    sys.exit(main())
