#!/bin/sh
# Make the model again: run.sh DATA_DIR WORK_DIR [--loso]
#
# DATA_DIR holds fsdd/, speech/, librispeech/, formats/ (see README.md); WORK_DIR takes about 4 GB.
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
tune() {     # tune INIT OUT STEPS LR EMA SPEAKER...: with these speakers' recordings too
    init=$1 out=$2 steps=$3 lr=$4 ema=$5
    shift 5
    mixture=espeak=0.2,natural=0.35
    for s in "$@"; do
        mixture="$mixture,fsdd_$s=$("$py" -c "print(0.45 / $#)")"
    done
    train "$out" --init "$init" --shards "$mixture" --steps "$steps" --lr "$lr" --warmup 20 --ema "$ema" \
        --phone-weight 0.05 --seed 5
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

# The base hears synthetic voices only: single words first, then scenes, then scenes without the filler.
o=$work/out
stage base-words train "$o/base_a.pt" --shards espeak --words 400 --word-pools espeak --fillers --steps 1200 \
    --lr 1e-3 --warmup 100 --ema 0.998
stage base-fillers train "$o/base_b.pt" --init "$o/base_a.pt" --shards espeak=0.4,natural=0.6 --fillers --steps 400 \
    --lr 1.5e-3 --warmup 60 --ema 0.998 --seed 2
stage base train "$o/base.pt" --init "$o/base_b.pt" --shards espeak=0.4,natural=0.6 --steps 1400 --lr 1.5e-3 \
    --warmup 50 --ema 0.998 --phone-weight 0.08 --seed 3

# Leave one speaker out: short, to say what an unseen speaker gets.
if [ "${3:-}" = --loso ]; then
    for s in $speakers; do
        others=$(echo "$speakers" | tr ' ' '\n' | grep -v "^$s$" | tr '\n' ' ')
        # shellcheck disable=SC2086
        stage "loso-$s" tune "$o/base.pt" "$o/loso_$s.pt" 150 1e-3 0.985 $others
        mkdir -p "$o/loso_$s"
        "$py" -W ignore "$here/export.py" "$o/loso_$s.pt" "$o/loso_$s" --half
        "$py" -W ignore "$here/evaluate.py" "$data" "$work" "$o/loso_$s/encoder.onnx" --speaker "$s" \
            --json "$o/loso_$s.json"
    done
fi

# shellcheck disable=SC2086
stage final-a tune "$o/base.pt" "$o/final_a.pt" 786 1.2e-3 0.995 $speakers
# shellcheck disable=SC2086
stage final-b tune "$o/final_a.pt" "$o/final_b.pt" 1476 1.2e-3 0.995 $speakers
# shellcheck disable=SC2086
stage final tune "$o/final_b.pt" "$o/final.pt" 1118 1e-3 0.995 $speakers
"$py" -W ignore "$here/export.py" "$o/final.pt" "$here/.." --half
speakers_list=$(echo "$speakers" | tr ' ' ,)
"$py" -W ignore "$here/evaluate.py" "$data" "$work" "$here/../encoder.onnx" --speaker "$speakers_list"
"$py" -W ignore "$here/evaluate.py" "$data" "$work" "$here/../encoder.onnx" --part tts
"$py" -W ignore "$here/evaluate.py" "$data" "$work" "$here/../encoder.onnx" --part negatives
