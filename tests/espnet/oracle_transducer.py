#!/usr/bin/env python3
"""The transducer searches of espnet_onnx and ESPnet over the toy networks of tests/unit/test_transducer.c. Prints
its table of expected results."""
import importlib.util
import sys
from math import sin
from pathlib import Path
from types import SimpleNamespace as Bag

spec = importlib.util.spec_from_file_location("generate", Path(__file__).parent / "generate.py")
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)   # empty stand-ins, repairs

import numpy as np  # noqa: E402
import torch  # noqa: E402
from espnet2.asr.transducer.beam_search_transducer import BeamSearchTransducer as Torch  # noqa: E402
from espnet_onnx.asr.beam_search.beam_search_transducer import (  # noqa: E402
    BeamSearchTransducer as Onnx,
)

VOCAB, FRAMES = 5, 9


def key(yseq):
    k = 0
    for t in yseq[1:]:
        k = (3 * k + t) % 11
    return k


class Decoder:
    """A prediction is the key of the sequence; the state is empty."""

    dunits, odim, blank_id, device = 1, VOCAB, 0, "cpu"

    def __init__(self, array):
        self.array = array

    def set_device(self, device):
        pass

    def init_state(self, n=1):
        return None

    def select_state(self, state, i):
        return None

    def create_batch_states(self, state, new, check=None):
        return None

    def score(self, hyp, cache):
        return self.array([float(key(hyp.yseq))]), None, None

    def batch_score(self, hyps, state, cache, use_lm):
        return self.array([[float(key(h.yseq))] for h in hyps]), None, None


def joint(array):
    def scores(enc, dec):
        e, d = np.asarray(enc, np.float64), np.asarray(dec, np.float64)
        e, d = np.broadcast_arrays(e.reshape(-1, 1), d.reshape(-1, 1))
        x = [[3 * sin(1.7 * a[0] + 2.3 * v + 0.9 * b[0]) + (1.5 if v == 0 else 0)
              for v in range(VOCAB)] for a, b in zip(e, d)]
        return array(x if np.asarray(dec).ndim > 1 else x[0])
    return scores


def main():
    searches = [("GREEDY", dict(beam_size=1)), ("DEFAULT", dict(beam_size=3)),
                ("TSD", dict(beam_size=3, search_type="tsd", max_sym_exp=3)),
                ("ALSD", dict(beam_size=3, search_type="alsd", u_max=6)),
                ("NSC", dict(beam_size=3, search_type="nsc", nstep=2, prefix_alpha=2)),
                ("MAES", dict(beam_size=3, search_type="maes", nstep=2, prefix_alpha=2))]
    array = lambda x: np.array(x, np.float32)  # noqa: E731
    enc = [[float(t)] for t in range(FRAMES)]
    for name, args in searches:
        rest = {k: v for k, v in args.items() if k not in ("beam_size", "search_type")}
        rest.update(expansion_gamma=2.3, expansion_beta=2)
        onnx = Onnx(Bag(beam_size=args["beam_size"], search_type=args.get("search_type", "default"),
                        search_args=Bag(**rest), score_norm=True), Bag(list=range(VOCAB), blank=0),
                    dict(decoder=Decoder(array), joint_network=joint(array)), {})
        other = Torch(decoder=Decoder(torch.tensor), joint_network=joint(torch.tensor), **args)
        for compat, hyps in ((True, onnx(array(enc))), (False, other(torch.tensor(enc)))):
            for h in hyps[:3]:
                print('    {STENO_TRANSDUCER_%s, %s, "%s", %.5f},' % (
                    name, "true" if compat else "false", "".join(map(str, h.yseq)), h.score))


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    main()
