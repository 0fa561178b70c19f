#!/usr/bin/env python3
"""The results of ESPnet's BatchBeamSearchOnline for scores and a decoder that are a few numbers each.

    block_search.py > tests/data/espnet/block_search.json

Encoder frames come in blocks (24 first, then 16 each). The decoder keeps a state of V numbers. Each token changes
it to state/2 + step[token] + rows[number of frames so far % 7]; the scores are the state's log-softmax. So a
state shows the number of frames for which it was made, and a rewind is visible. generate.OnlineSearch and
search_blocks say which of ESPnet's results are left out.
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import generate  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from espnet.nets.scorer_interface import BatchScorerInterface  # noqa: E402
from espnet.nets.scorers.ctc import CTCPrefixScorer  # noqa: E402
from espnet.nets.scorers.length_bonus import LengthBonus  # noqa: E402

V = 12


class Decoder(BatchScorerInterface, torch.nn.Module):
    def __init__(self, step, rows):
        super().__init__()
        self.step, self.rows = torch.from_numpy(step), torch.from_numpy(rows)

    def batch_score(self, ys, states, xs):
        new = [(0 if s is None else s / 2) + self.step[y[-1]] + self.rows[xs.shape[1] % 7]
               for y, s in zip(ys, states)]
        return torch.log_softmax(torch.stack(new), -1), new

    def select_state(self, state, i, new_id=None):
        return state[i]


class Ctc:
    """The frames are their own log-probabilities."""

    def log_softmax(self, x):
        return x.clone()


class Search(generate.OnlineSearch):
    def process_one_block(self, h, is_final, *args):
        out = super().process_one_block(h, is_final, *args)
        if not is_final:
            self.log.append([int(t) for t in self.running_hyps.yseq[0]])
        return out


def case(seed, rows, beam, weight, bonus=0.0, ratio=0.0, repeats=True, said=None, noise=0.4):
    g = np.random.default_rng(seed)
    if said is None:
        said = list(g.permutation(np.arange(1, V - 1)))
    x = g.normal(0, 0.5, (rows, V))
    x[:, 0] += 4
    for i, token in enumerate(said):
        at = int((i + 0.5) * rows / len(said))
        x[at:at + 2, token] += 8
    x = torch.log_softmax(torch.from_numpy(x.round(2)), -1).float().numpy().round(2)
    step = g.normal(0, noise, (V, V))
    for a, b in zip([V - 1] + said, said + [V - 1]):
        step[a, b] += 4
    step = step.round(2).astype(np.float32)
    grow = g.normal(0, 0.3, (7, V)).round(2).astype(np.float32)
    weights = dict(decoder=1 - weight, ctc=weight, length_bonus=bonus)
    search = Search(beam_size=beam, weights=weights, vocab_size=V, sos=V - 1, eos=V - 1,
                    token_list=[str(i) for i in range(V)], pre_beam_score_key="full",
                    disable_repetition_detection=not repeats,
                    scorers=dict(decoder=Decoder(step, grow), ctc=CTCPrefixScorer(Ctc(), V - 1),
                                 length_bonus=LengthBonus(V)))
    search.log = []
    with torch.no_grad():
        best = generate.search_blocks(search, torch.from_numpy(x.astype(np.float32)), ratio)
    return dict(beam=beam, ctc_weight=weight, length_bonus=bonus, maxlenratio=ratio,
                repetition=repeats, pre_beam=int(1.5 * beam), ctc=x.tolist(), step=step.tolist(),
                rows=grow.tolist(), running=search.log, nbest=best[:8])


def numbers(x):
    return round(x, 6) if isinstance(x, float) else \
        [numbers(i) for i in x] if isinstance(x, list) else \
        {k: numbers(v) for k, v in x.items()} if isinstance(x, dict) else x


def main():
    again = [3, 5, 4, 3, 7, 8, 5, 9, 2, 3, 6]
    cases = [case(1, 73, 4, 0.3), case(2, 70, 3, 0.5, bonus=0.5), case(3, 88, 5, 0.0),
             case(4, 72, 4, 0.3, said=again), case(5, 88, 4, 0.3, repeats=False, said=again),
             case(6, 60, 3, 0.4, ratio=0.1), case(7, 20, 3, 0.3), case(8, 104, 2, 0.7, bonus=-0.3),
             case(9, 88, 3, 0.3, noise=1), case(10, 100, 1, 0.5), case(11, 104, 1, 0.3, said=again),
             case(12, 104, 3, 0.3, repeats=False)]
    print("[" + ",\n".join(json.dumps(numbers(c), separators=(",", ":")) for c in cases) + "]")
    for c in cases:
        print([len(r) - 1 for r in c["running"]], [len(h["yseq"]) for h in c["nbest"]],
              c["nbest"][:1], file=sys.stderr)


if __name__ == "__main__":
    main()
