#!/bin/sh
# Make the model again: run.sh DATA_DIR WORK_DIR [--loso]
#
# DATA_DIR holds fsdd/, speech/, librispeech/, formats/ (see README.md); WORK_DIR takes about 4 GB.
# With --loso, five more models are made, each without one FSDD speaker, and tested on that speaker.
# Environment: SCALE=0.01 a trial run on that share of the data and the steps; INSTALL=1 replace the shipped model
# by the result; APT=1 install missing Debian packages; PYTHON a Python that has requirements.txt already.
set -eu
usage="usage: run.sh DATA_DIR WORK_DIR [--loso]"
data=${1:?$usage} work=${2:?$usage}
here=$(cd "$(dirname "$0")" && pwd)
scale=${SCALE:-1}
speakers="george jackson lucas nicolas yweweler"
packages="python3-venv espeak-ng flite festival festvox-kallpc16k festvox-kdlpc16k festvox-us-slt-hts fortunes
 wamerican opus-tools sox asterisk-core-sounds-en-wav asterisk-core-sounds-es-wav asterisk-core-sounds-fr-wav
 asterisk-core-sounds-it-wav asterisk-core-sounds-ru-wav"
die() {
    echo "run.sh: $*" >&2
    exit 66
}
share() {    # share N: SCALE of N, at least 1
    awk -v n="$1" -v s="$scale" 'BEGIN { k = int(n * s + 0.5); print k < 1 ? 1 : k }'
}

awk -v s="$scale" 'BEGIN { exit !(s > 0 && s <= 1) }' || die "SCALE=$scale is not above 0 and up to 1"
[ -d "$data/fsdd" ] || die "$data holds no fsdd/: the Free Spoken Digit Dataset's DIGIT_SPEAKER_TAKE.wav belong there"
for s in $speakers; do
    for d in 0 1 2 3 4 5 6 7 8 9; do
        [ -e "$data/fsdd/${d}_${s}_0.wav" ] && [ -e "$data/fsdd/${d}_${s}_49.wav" ] ||
            die "$data/fsdd lacks takes 0 to 49 of digit $d by $s"
    done
done
for f in speech/beckett.wav speech/two_cities_16k.wav librispeech/61-70968-0000.flac formats/silero-test.wav; do
    [ -e "$data/$f" ] || die "$data/$f is missing (running speech without digits)"
done

missing=""
if command -v dpkg-query >/dev/null 2>&1; then
    for p in $packages; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null || true)" = installed ] || missing="$missing $p"
    done
fi
if [ -n "$missing" ]; then
    [ "${APT:-0}" = 1 ] || die "missing Debian packages; run with APT=1 or: apt-get install$missing"
    as_root=""
    [ "$(id -u)" = 0 ] || as_root=sudo
    # shellcheck disable=SC2086 # a list of package names
    $as_root apt-get install -y --no-install-recommends $missing
fi
for c in espeak-ng flite festival opusenc opusdec sox; do
    command -v "$c" >/dev/null 2>&1 || die "the program $c is missing"
done

mkdir -p "$work/out" "$work/checkpoints"
work=$(cd "$work" && pwd)
if [ -e "$work/scale" ] && [ "$(cat "$work/scale")" != "$scale" ]; then
    die "$work was begun with SCALE=$(cat "$work/scale"); take another WORK_DIR for SCALE=$scale"
fi
echo "$scale" >"$work/scale"

stage() {    # stage NAME COMMAND...: once; an interrupted stage begins again
    name=$1
    shift
    if [ -e "$work/done.$name" ]; then return; fi
    echo "== $name"
    begun=$(date +%s)
    "$@"
    echo "== $name: $(($(date +%s) - begun)) s"
    touch "$work/done.$name"
}
environment() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "Python 3.11 or later is needed"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install -q -r "$here/requirements.txt"
}
if [ -n "${PYTHON:-}" ]; then
    py=$PYTHON
else
    stage "venv-$(cksum <"$here/requirements.txt" | cut -d' ' -f1)" environment
    py=$work/venv/bin/python
fi
render() { "$py" -W ignore "$here/render.py" "$data" "$work" --scale "$scale" --part "$1"; }
train() { "$py" -W ignore "$here/train.py" "$work" "$@"; }
mix() { "$py" -W ignore "$here/mix.py" "$work" "$@"; }
export_to() {
    mkdir -p "$2"
    cp "$here/../model.conf" "$2/model.conf"
    "$py" -W ignore "$here/export.py" "$1" "$2" --half
}
evaluate() { "$py" -W ignore "$here/evaluate.py" "$data" "$work" "$@" --scale "$scale"; }
tune() {     # tune INIT OUT STEPS LR WARMUP EMA OTHERS SETS SPEAKER...: scenes of other voices and SETS_SPEAKER in equal parts
    init=$1 out=$2 steps=$3 lr=$4 warmup=$5 ema=$6 mixture=$7 sets=$8
    shift 8
    each=$(awk -v n=$# -v m="$mixture" 'BEGIN { k = split(m, p, /[=,]/); for (i = 2; i <= k; i += 2) s += p[i]; print (1 - s) / n }')
    for s in "$@"; do
        mixture="$mixture,${sets}_$s=$each"
    done
    # shellcheck disable=SC2086 # a list of options
    train "$out" --init "$init" --shards "$mixture" --steps "$(share "$steps")" --lr "$lr" --warmup "$(share "$warmup")" \
        --ema "$ema" --seed 5 $more
}

for part in fsdd prompts speech espeak accent natural; do
    stage "render-$part" render $part
done
stage mix-espeak mix espeak --pools espeak,speech --weights espeak=1,speech=0.0001 --shards "$(share 300)" --seed 1
for i in 1 2; do
    stage mix-natural$i mix natural --pools natural,speech --weights natural=1,speech=0.0001 --shards "$(share 150)" \
        --seed 4$i
done
for i in 1 2; do
    stage mix-accent$i mix accent --pools accent,espeak,speech --weights accent=1,espeak=0.05,speech=0.0001 --digits 0.5 \
        --shards "$(share 35)" --seed 6$i
done
seed=20
for s in $speakers; do
    seed=$((seed + 1))
    stage "mix-$s" mix "fsdd_$s" --pools "fsdd_$s,espeak,speech" \
        --weights "fsdd_$s=1,espeak=0.03,speech=0.0001" --digits 0.8 --shards "$(share 36)" --seed $seed
    stage "mix-far-$s" mix "far_$s" --pools "fsdd_$s,far_$s,espeak,speech" \
        --weights "fsdd_$s=0.5,far_$s=0.5,espeak=0.03,speech=0.0001" --digits 0.8 --bare 0.15 --shards "$(share 40)" --seed 1$seed
done
stage mix-prompts mix prompts --pools prompts,espeak,speech --weights prompts=1,espeak=0.03,speech=0.0001 --digits 0.3 \
    --bare 0.1 --shards "$(share 90)" --seed 71

# The base is trained on synthetic voices only: single words first, then scenes, then scenes without the filler.
o=$work/checkpoints
stage base-words train "$o/base_a.pt" --shards espeak --words "$(share 400)" --word-pools espeak --fillers \
    --steps "$(share 1200)" --lr 1e-3 --warmup "$(share 100)" --ema 0.998
stage base-fillers train "$o/base_b.pt" --init "$o/base_a.pt" --shards espeak=0.4,natural=0.6 --fillers \
    --steps "$(share 400)" --lr 1.5e-3 --warmup "$(share 60)" --ema 0.998 --seed 2
stage base train "$o/base.pt" --init "$o/base_b.pt" --shards espeak=0.4,natural=0.6 --steps "$(share 1400)" \
    --lr 1.5e-3 --warmup "$(share 50)" --ema 0.998 --phone-weight 0.08 --seed 3

# Leave one speaker out to measure unseen speakers: a base without FSDD, then training on the four others.
if [ "${3:-}" = --loso ]; then
    stage base2-words train "$o/base2_a.pt" --shards espeak --words "$(share 300)" --word-pools espeak --fillers --bf16 \
        --steps "$(share 700)" --lr 1e-3 --warmup "$(share 100)" --ema 0.998
    stage base2-fillers train "$o/base2_b.pt" --init "$o/base2_a.pt" --shards espeak=0.4,natural=0.6 --fillers --bf16 \
        --steps "$(share 500)" --lr 1.5e-3 --warmup "$(share 60)" --ema 0.998 --seed 2
    stage base2 train "$o/base2.pt" --init "$o/base2_b.pt" --shards espeak=0.33,natural=0.45,prompts=0.22 --bf16 \
        --steps "$(share 4000)" --lr 1.5e-3 --warmup "$(share 60)" --ema 0.998 --phone-weight 0.06 --dropout 0.05 --seed 3
    more="--phone-weight 0.04 --dropout 0.06 --bf16"
    for s in $speakers; do
        others=$(echo "$speakers" | tr ' ' '\n' | grep -v "^$s$" | tr '\n' ' ')
        # shellcheck disable=SC2086 # a list of names
        stage "loso-$s" tune "$o/base2.pt" "$o/loso_$s.pt" 2000 1.2e-3 50 0.998 espeak=0.17,natural=0.28,prompts=0.15 \
            far $others
        stage "loso-$s-export" export_to "$o/loso_$s.pt" "$work/loso_$s"
        stage "loso-$s-count" evaluate "$work/loso_$s/encoder.onnx" --speaker "$s" --json "$work/loso_$s.json"
    done
fi

# The model that ships: the learning rate goes up and down eight times. The sixth time adds voices of other languages, the
# last two add recorded prompts, more converted speakers and takes without margins.
last=$o/base.pt
tune_all() {    # tune_all NAME STEPS LR WARMUP EMA OTHERS SETS
    name=$1
    shift
    # shellcheck disable=SC2086 # a list of names
    stage "$name" tune "$last" "$o/$name.pt" "$@" $speakers
    last=$o/$name.pt
}
more="--phone-weight 0.05"
tune_all final-a 786 1.2e-3 20 0.995 espeak=0.2,natural=0.35 fsdd
tune_all final-b 1476 1.2e-3 20 0.995 espeak=0.2,natural=0.35 fsdd
tune_all final-c 1118 1e-3 20 0.995 espeak=0.2,natural=0.35 fsdd
tune_all final-d 3420 1.2e-3 50 0.998 espeak=0.2,natural=0.35 fsdd
tune_all final-e 5000 1.2e-3 100 0.999 espeak=0.22,natural=0.38 fsdd
tune_all final-f 12150 9e-4 50 0.999 espeak=0.2,natural=0.33,accent=0.1 fsdd
more="--phone-weight 0 --dropout 0.06 --bf16"
tune_all final-g 4000 8e-4 100 0.999 espeak=0.17,natural=0.25,prompts=0.15,accent=0.08 far
tune_all final 900 3.5e-4 20 0.998 espeak=0.17,natural=0.25,prompts=0.15,accent=0.08 far
stage export export_to "$o/final-f.pt,$o/final.pt" "$work/out"    # the mean of the two: see README.md
list=$(echo "$speakers" | tr ' ' ,)
stage count-digits evaluate "$work/out/encoder.onnx" --speaker "$list" --json "$work/digits.json"
stage count-tts evaluate "$work/out/encoder.onnx" --part tts
stage count-prompts evaluate "$work/out/encoder.onnx" --part prompts
stage count-negatives evaluate "$work/out/encoder.onnx" --part negatives
if [ "${INSTALL:-0}" = 1 ]; then
    cp "$work/out/encoder.onnx" "$work/out/tokens.txt" "$here/.."
    echo "installed into $(cd "$here/.." && pwd); the numbers in its README.md are still those of the former file"
fi
echo "the model is in $work/out: steno transcribe --model $work/out FILE"
