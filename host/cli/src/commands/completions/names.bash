# Prints the valid words after `KEY=`.
_pbghost_values() {
    case "$1" in
@VALUES@
    esac
}

# Prints the plugins in the user's folders.
_pbghost_own() {
    local folder file IFS=:
    for folder in $PBG_PLUGIN_PATH; do
        for file in "$folder"/*.wasm; do
            [[ -e "$file" ]] && basename "$file" .wasm
        done
    done
}

# Completes names where an option or a command expects them; the generated function completes everything else.
_pbghost_names() {
    local cur="${COMP_WORDS[COMP_CWORD]}" at=$((COMP_CWORD - 1)) key="" files="" words=""
    # Bash splits words at `=`.
    if [[ "$cur" == "=" ]]; then
        cur="" key="${COMP_WORDS[at]}" at=$((at - 1))
    elif [[ "${COMP_WORDS[at]}" == "=" ]]; then
        key="${COMP_WORDS[at - 1]}" at=$((at - 2))
    fi
    local command="${COMP_WORDS[*]:1:2}"
    case "${COMP_WORDS[at]},$key" in
        --set,) [[ "$command" == plugin* ]] || words="@KEYS@" ;;
        --set,bucket_order | --set,relation_sampler | --set,negative_sampler | --set,loss_fn | --set,lr_schedule.decay)
            words="$(_pbghost_values "$key") $(_pbghost_own)" files=yes ;;
        --set,*)
            words="$(_pbghost_values "$key")"
            # Any file may be the value of another key.
            if [[ -z "$words" ]]; then
                COMPREPLY=()
                return
            fi ;;
        --limit,) words="@LIMITS@" ;;
        --plugin,) words="@ORDERS@ @SAMPLERS@ @NEGATIVES@ @LOSSES@ @SCHEDULES@ $(_pbghost_own)" files=yes ;;
        --order,) words="@ORDERS@ $(_pbghost_own)" files=yes ;;
        *)
            case "$command,$cur" in
                *,-*) ;;
                "plugin check,"* | "plugin bench,"* | "plugin inspect,"*)
                    words="@ORDERS@ @SAMPLERS@ @NEGATIVES@ @LOSSES@ @SCHEDULES@ $(_pbghost_own)" files=yes ;;
                "orders show,"*)
                    # A configuration follows the order.
                    if [[ "${COMP_WORDS[at]}" == show || "${COMP_WORDS[at - 1]}" == -* ]]; then
                        words="@ORDERS@ $(_pbghost_own)" files=yes
                    fi ;;
            esac
            # Options of these commands expect other values.
            [[ "${COMP_WORDS[at]}" == -* ]] && words="" files="" ;;
    esac
    if [[ -z "$words$files" ]]; then
        _pbghost "$@"
        return
    fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    [[ "${COMPREPLY[*]}" == *= ]] && compopt -o nospace 2>/dev/null
    if [[ -n "$files" ]]; then
        COMPREPLY+=($(compgen -f -X "!*.wasm" -- "$cur") $(compgen -d -S / -- "$cur"))
    fi
    return 0
}

