# bash completion for steno(1) and stenod(8)
_steno()
{
    local cur prev cmd opts i
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD - 1]}
    cmd=""
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -*) ;;
        *) cmd=${COMP_WORDS[i]}; break ;;
        esac
    done
    case $prev in
    --model | --align-model | --output-dir)
        mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    --config | --socket)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    --format)
        mapfile -t COMPREPLY < <(compgen -W "text json srt vtt lrc tsv whisper whisperx" -- "$cur"); return ;;
    --vad)
        mapfile -t COMPREPLY < <(compgen -W "off energy silero" -- "$cur"; compgen -d -- "$cur"); return ;;
    --cpu)
        mapfile -t COMPREPLY < <(compgen -W "scalar avx2 avx512 vnni bf16 native" -- "$cur"); return ;;
    --precision)
        mapfile -t COMPREPLY < <(compgen -W "auto fp32 bf16 fp16 int8" -- "$cur"); return ;;
    --level)
        mapfile -t COMPREPLY < <(compgen -W "basic extended layer all" -- "$cur"); return ;;
    --report)
        mapfile -t COMPREPLY < <(compgen -W "text json" -- "$cur"); return ;;
    --external)
        mapfile -t COMPREPLY < <(compgen -W "auto never always" -- "$cur"); return ;;
    --disable-pass | --only)
        mapfile -t COMPREPLY < <(compgen -W "$(steno help --passes 2>/dev/null)" -- "$cur"); return ;;
    --state)
        mapfile -t COMPREPLY < <(compgen -W "queued running done failed expired cancelled" -- "$cur"); return ;;
    --opt-level)
        mapfile -t COMPREPLY < <(compgen -W "0 1 2 3" -- "$cur"); return ;;
    esac
    if [[ -z $cmd ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(steno help --names 2>/dev/null || echo transcribe run bench model optimize) --help --version" -- "$cur")
        return
    fi
    if [[ $cur == -* ]]; then
        opts=$(steno "$cmd" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u)
        mapfile -t COMPREPLY < <(compgen -W "$opts" -- "$cur")
    elif [[ " fetch remove " == *" $prev "* && $cmd == model ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(steno model list 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$cur")
    elif [[ $prev == model ]]; then
        mapfile -t COMPREPLY < <(compgen -W "info ops options fetch list remove calibrate" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
_stenod()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    case $prev in
    --config) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    --model) mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$(stenod --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u)" -- "$cur")
}
complete -o filenames -F _steno steno
complete -o filenames -F _stenod stenod
