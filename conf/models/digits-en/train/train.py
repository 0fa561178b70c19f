"""Train on feature shards.

usage: train.py WORK_DIR OUT.pt --shards NAME[=WEIGHT],... [--init CKPT] [--steps N | --minutes M] [--lr PEAK]
"""
import argparse
import glob
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

import features
import mix
import model as M
from render import PHONES

BATCH_FRAMES = 6400


def warp_matrices(rng, n=400):
    """Other vocal tracts by interpolation between mel bins [n, 40, 40]: one factor of 0.84 to 1.2 for all, and a small
    deviation for each region of the spectrum, as for formants."""
    mel = lambda f: 1127 * np.log(1 + f / 700)
    hz = lambda m: 700 * (np.exp(m / 1127) - 1)
    step = (mel(3800) - mel(60)) / (M.BINS + 1)
    centre = hz(mel(60) + step * (np.arange(M.BINS) + 1))
    out = []
    for _ in range(n):
        local = np.interp(np.arange(M.BINS), np.linspace(0, M.BINS - 1, 6), rng.normal(0, 0.035, 6))
        a = np.exp(rng.uniform(np.log(0.84), np.log(1.2)) + local)
        src = np.clip((mel(centre / a) - mel(60)) / step - 1, 0, M.BINS - 1)
        k = np.minimum(src.astype(int), M.BINS - 2)
        w = np.zeros((M.BINS, M.BINS), np.float32)
        w[k, np.arange(M.BINS)] = 1 - (src - k)
        w[k + 1, np.arange(M.BINS)] += src - k
        out.append(w)
    return torch.from_numpy(np.stack(out))


def pace(x, rng):
    """x [B, T, BINS]: each scene at a pace that changes from word to word by about 15 %; its ends stay in place."""
    b, t, _ = x.shape
    knots = max(2, t // 32)
    at = np.linspace(0, t - 1, knots)
    src = np.stack([np.interp(np.arange(t), at, at + np.r_[0, rng.normal(0, 3, knots - 2), 0]) for _ in range(b)])
    src = np.clip(np.maximum.accumulate(src, 1), 0, t - 1.001)
    k = torch.from_numpy(src.astype(np.int64))
    f = torch.from_numpy((src - k.numpy()).astype(np.float32))[..., None]
    rows = torch.arange(b)[:, None]
    return x[rows, k] * (1 - f) + x[rows, k + 1] * f


class Shards:
    def __init__(self, work, spec, rng):
        self.rng, self.work = rng, work
        self.names, self.weights = [], []
        for s in spec.split(","):
            name, _, w = s.partition("=")
            self.names.append(name)
            self.weights.append(float(w or 1))
        self.weights = np.array(self.weights) / sum(self.weights)
        self.paths, self.read, self.warps = {}, 0, warp_matrices(rng)

    def batch(self, augment=True):
        rng = self.rng
        if self.read % 40 == 0:  # the mixer may still be writing
            for n in self.names:
                self.paths[n] = sorted(glob.glob(os.path.join(self.work, "shards", n, "*.npz")))
        self.read += 1
        paths = []
        while not paths:
            paths = self.paths[str(rng.choice(self.names, p=self.weights))]
        with np.load(paths[int(rng.integers(len(paths)))]) as z:
            feats, free = z["feats"], z["free"]
            tok, tok_n, ph, ph_n = z["tok"], z["tok_n"].astype(int), z["ph"], z["ph_n"].astype(int)
        rows = rng.permutation(len(feats))[:max(1, BATCH_FRAMES // feats.shape[1])]
        x = torch.from_numpy(feats[rows]).float()
        t0, p0 = np.cumsum(tok_n) - tok_n, np.cumsum(ph_n) - ph_n
        toks = [torch.from_numpy(tok[t0[r]:t0[r] + tok_n[r]].astype(np.int64)) for r in rows]
        phs = [torch.from_numpy(ph[p0[r]:p0[r] + ph_n[r]].astype(np.int64)) for r in rows]
        if augment:
            x = torch.bmm(x, self.warps[torch.from_numpy(rng.integers(0, len(self.warps), len(rows)))])
            x = pace(x, rng)
            tilt = np.stack([np.interp(np.arange(M.BINS), np.linspace(0, M.BINS - 1, 6), rng.normal(0, 0.35, 6))
                             for _ in rows]).astype(np.float32)
            x = (x + torch.from_numpy(tilt)[:, None]).clamp_min(features.LOG_FLOOR)
            self.mask(x)
        return x, toks, phs, torch.from_numpy(free[rows])

    def mask(self, x):
        rng = self.rng
        for i in range(len(x)):
            for _ in range(int(rng.integers(0, 3))):
                w, k = int(rng.integers(1, 9)), int(rng.integers(0, M.BINS - 8))
                x[i, :, k:k + w] = x[i, :, k:k + w].mean()
            for _ in range(int(rng.integers(0, x.shape[1] // 150 + 1))):
                w, k = int(rng.integers(1, 9)), int(rng.integers(0, x.shape[1] - 9))
                x[i, k:k + w] = x[i, k:k + w].mean()


class Words:
    """The first steps: one word in a second with little noise. From hard scenes alone CTC stays at all blanks."""

    def __init__(self, work, names, rng):
        self.pools, self.rng = mix.Pools(work, names), rng
        self.items = {k: self.pools.loose[k] for k in ("d", "w")}

    def batch(self, n=64):
        rng = self.rng
        size = (4 * M.SHIFT + M.OVERLAP - 1) * 80 + 200
        x = rng.normal(0, 1, (n, size)).astype(np.float32) * 10 ** rng.uniform(-5, -3, (n, 1)).astype(np.float32)
        toks, phs = [], []
        for i in range(n):
            item = mix.pick(rng, self.items["d" if rng.random() < 0.75 else "w"])
            w = self.pools.wave(item)[:size - 10]
            k = int(rng.integers(0, size - len(w)))
            x[i, k:k + len(w)] += w * 10 ** rng.uniform(-1, 0.3)
            toks.append(torch.tensor(item[3]))
            phs.append(torch.tensor(item[4], dtype=torch.long))
        return features.fbank(torch.from_numpy(x)), toks, phs, torch.zeros(n, dtype=torch.bool)


def ctc(logp, targets, blank=0):
    """Sum of CTC losses, without alignments that do not fit."""
    n = torch.tensor([len(t) for t in targets])
    if not len(targets):
        return logp.sum() * 0
    flat = torch.cat(targets) if n.sum() else torch.zeros(0, dtype=torch.long)
    lens = torch.full((len(targets),), logp.shape[1])
    return F.ctc_loss(logp.transpose(0, 1), flat, lens, n, blank=blank, reduction="none", zero_infinity=True).sum()


def loss_of(net, batch, phone_weight, fillers, half):
    x, toks, phs, free = batch
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        logp, phones = net(x)
    logp, phones = logp.float(), phones.float()
    known = (~free).nonzero().flatten().tolist()
    if fillers:  # a filler for every other word; a recording without transcript may hold any number of them
        loss = ctc(logp[known], [toks[i] for i in known])
        if free.any():
            f = logp[free]
            loss = loss - torch.logaddexp(f[..., M.BLANK], f[..., M.UNK]).sum()
    else:        # everything that is no digit is blank
        loss = ctc(logp, [t[t != M.UNK] for t in toks])
    said = [i for i in known if len(phs[i])]
    aux = ctc(phones[said], [phs[i] for i in said]) if said else loss * 0
    n = x.shape[0] * x.shape[1] / 600
    return loss / n, aux / n, (loss / n + phone_weight * aux / n) / 8


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("work")
    ap.add_argument("out")
    ap.add_argument("--shards", required=True)
    ap.add_argument("--init")
    ap.add_argument("--steps", type=int, default=0)
    ap.add_argument("--minutes", type=float, default=0)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--warmup", type=int, default=300)
    ap.add_argument("--words", type=int, default=0, help="first steps on single words")
    ap.add_argument("--word-pools", default="espeak,natural")
    ap.add_argument("--phone-weight", type=float, default=0.15)
    ap.add_argument("--fillers", action="store_true", help="count the other words as <unk>")
    ap.add_argument("--dropout", type=float, default=0.0)
    ap.add_argument("--bf16", action="store_true", help="matrix products in bfloat16; weights and sums stay f32")
    ap.add_argument("--ema", type=float, default=0.999)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--save-every", type=int, default=1000)
    args = ap.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    data = Shards(args.work, args.shards, np.random.default_rng(args.seed))
    words = Words(args.work, args.word_pools.split(","), data.rng) if args.words else None
    net = M.Digits(phones=len(PHONES) + 1)
    if args.init:
        found = torch.load(args.init, weights_only=True)["model"]
        absent = net.load_state_dict(found, strict=False)  # a phone head is unused or begins anew
        assert not [k for k in sum(absent, []) if not k.startswith("phone_head")], absent
    else:
        x = torch.cat([data.batch(False)[0].flatten(0, 1) for _ in range(12)])
        x = torch.log(torch.exp(x) + net.floor)
        net.mean.copy_(x.mean(0))
        net.scale.copy_(1 / x.std(0))
    decay = [p for p in net.parameters() if p.ndim > 1]
    plain = [p for p in net.parameters() if p.ndim <= 1]
    opt = torch.optim.AdamW([dict(params=decay, weight_decay=0.03), dict(params=plain, weight_decay=0)], lr=args.lr,
                            betas=(0.9, 0.98), foreach=True)
    ema = {k: v.clone() for k, v in net.state_dict().items()}
    start, step, seen, log = time.time(), 0, 0, []
    net.train()
    net.drop = args.dropout

    def save(path):
        torch.save(dict(model=ema, steps=step, seconds=seen), path + ".part")
        os.rename(path + ".part", path)
    while True:
        done = (time.time() - start) / 60 / args.minutes if args.minutes else step / args.steps
        if done >= 1:
            break
        lr = args.lr * min(1, (step + 1) / args.warmup) * (0.01 + 0.99 * 0.5 * (1 + np.cos(np.pi * done)))
        for g in opt.param_groups:
            g["lr"] = lr
        batch = words.batch() if step < args.words else data.batch()
        main_loss, aux, loss = loss_of(net, batch, args.phone_weight, args.fillers, args.bf16)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        if torch.isfinite(norm):
            opt.step()
        step += 1
        seen += batch[0].shape[0] * batch[0].shape[1] / 100
        d = min(args.ema, (step + 1) / (step + 20))
        with torch.no_grad():
            now = net.state_dict()
            fl = [k for k in ema if ema[k].is_floating_point()]
            torch._foreach_lerp_([ema[k] for k in fl], [now[k] for k in fl], 1 - d)
        log.append((float(main_loss.detach()), float(aux.detach()), float(norm)))
        if step % 50 == 0:
            a = np.mean(log[-50:], 0)
            print(f"step {step} loss {a[0]:.3f} phones {a[1]:.2f} norm {a[2]:.2f} lr {lr:.2e} "
                  f"{seen / 3600:.1f} h seen, {(time.time() - start) / 60:.1f} min", flush=True)
        if step % args.save_every == 0:
            save(args.out)
    save(args.out)


if __name__ == "__main__":
    main()
