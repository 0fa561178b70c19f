#!/bin/sh
# Make the model again: run.sh DATA_DIR WORK_DIR [--loso]
#
# DATA_DIR holds fsdd/, speech/, librispeech/, formats/ (see README.md); WORK_DIR takes about 8 GB.
# With --loso, five more models are made, each without one FSDD speaker, and counted on that speaker.
set -eu
data=${1:?usage: run.sh DATA_DIR WORK_DIR [--loso]}
work=${2:?usage: run.sh DATA_DIR WORK_DIR [--loso]}
here=$(cd "$(dirname "$0")" && pwd)
py=${PYTHON:-python3}
speakers="george jackson lucas nicolas yweweler"
mkdir -p "$work/out"

stage() {    # stage NAME COMMAND...: once
    name=$1
    shift
    [ -e "$work/done.$name" ] && return
    echo "== $name"
    "$@"
    touch "$work/done.$name"
}
train() { "$py" -W ignore "$here/train.py" "$work" "$@"; }
mix() { "$py" -W ignore "$here/mix.py" "$work" "$@"; }

tts="espeak=0.4,natural=0.6"
tune() {     # tune OUT STEPS SPEAKER...: from the base, on these speakers' recordings too
    out=$1 steps=$2
    shift 2
    mixture=espeak=0.2,natural=0.35
    for s in "$@"; do
        mixture="$mixture,fsdd_$s=$(echo "0.45 / $#" | bc -l)"
    done
    train "$out" --init "$work/base.pt" --shards "$mixture" --steps "$steps" --lr @TUNE_LR@ --warmup 20 \
        --ema 0.99 --phone-weight 0.05 --seed 5
}

stage render "$py" -W ignore "$here/render.py" "$data" "$work"
stage mix-espeak mix espeak --pools espeak,speech --weights espeak=1,speech=0.0001 --shards 300 --seed 1
stage mix-natural1 mix natural --pools natural,speech --weights natural=1,speech=0.0001 --shards 150 --seed 41
stage mix-natural2 mix natural --pools natural,speech --weights natural=1,speech=0.0001 --shards 150 --seed 42
seed=20
for s in $speakers; do
    seed=$((seed + 1))
    stage "mix-$s" mix "fsdd_$s" --pools "fsdd_$s,espeak,speech" \
        --weights "fsdd_$s=1,espeak=0.03,speech=0.0001" --digits 0.8 --shards 36 --seed $seed
done
