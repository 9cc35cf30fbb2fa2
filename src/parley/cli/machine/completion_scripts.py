"""The scripts by which bash, zsh and fish ask Parley for completions. All knowledge of commands stays in Parley.

Each script runs `parley __complete SHELL WORD…` with the words up to the cursor. The first line of the answer says what
completes the last word: `words`, which follow one a line with a tab before the description, `files` or `folders`, which
the shell completes itself, each with a tab before the part of the word that stays as it is.

The program is named once, when the script is made: a `./parley` that lies in a checkout is never run by pressing Tab.
"""

from __future__ import annotations

BASH = r"""# Completes parley's words in bash. To install it for you:
#   mkdir -p ~/.local/share/bash-completion/completions
#   parley completion bash > ~/.local/share/bash-completion/completions/parley
# Without the package bash-completion, source it from ~/.bashrc instead: source <(parley completion bash)

_parley() {
    local kind='' line current="${COMP_WORDS[COMP_CWORD]}" IFS=$'\n'
    COMPREPLY=()
    [[ $current == [@=:] ]] && current=''
    while IFS= read -r line; do
        if [[ -z $kind ]]; then
            kind=${line%%$'\t'*}
        else
            COMPREPLY+=("$line")
        fi
    done < <(@PROGRAM@ __complete "bash,${COMP_TYPE:-9},${COLUMNS:-80}" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    case $kind in
        files) COMPREPLY=($(compgen -f -- "$current")); compopt -o filenames 2>/dev/null ;;
        folders) COMPREPLY=($(compgen -d -- "$current")); compopt -o filenames 2>/dev/null ;;
        *) [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null ;;
    esac
    return 0
}
complete -o nosort -F _parley parley 2>/dev/null || complete -F _parley parley
"""

ZSH = r"""#compdef parley
# Completes parley's words in zsh. To install it for you, in a folder of your $fpath, before compinit runs:
#   parley completion zsh > ~/.zfunc/_parley       # with fpath=(~/.zfunc $fpath) in ~/.zshrc
# Or source it from ~/.zshrc, after compinit: source <(parley completion zsh)

_parley() {
    local -a found shown ending
    local line kind fixed value
    found=("${(@f)$(@PROGRAM@ __complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    kind=${found[1]%%$'\t'*}
    fixed=${found[1]#*$'\t'}
    case $kind in
        files) compset -p ${#fixed}; _files; return ;;
        folders) compset -p ${#fixed}; _files -/; return ;;
        words) ;;
        *) return 1 ;;
    esac
    for line in "${(@)found[2,-1]}"; do
        value=${line%%$'\t'*}
        [[ $value == *= ]] && ending=(-S '')
        shown+=("${value//:/\\:}:${line#*$'\t'}")
    done
    _describe -V parley shown $ending
}

if [[ $funcstack[1] == _parley ]]; then
    _parley "$@"
else
    compdef _parley parley
fi
"""

FISH = r"""# Completes parley's words in fish. To install it for you:
#   parley completion fish > ~/.config/fish/completions/parley.fish

function __parley_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -e before[1]
    set -l found (@PROGRAM@ __complete fish $before "$current" 2>/dev/null)
    set -l head (string split \t -- "$found[1]")
    set -e found[1]
    switch "$head[1]"
        case files
            for path in (__fish_complete_path (string replace -- "$head[2]" '' "$current"))
                printf '%s%s\n' "$head[2]" $path
            end
        case folders
            for path in (__fish_complete_directories (string replace -- "$head[2]" '' "$current"))
                printf '%s%s\n' "$head[2]" $path
            end
        case words
            for line in $found
                printf '%s\n' $line
            end
    end
end
complete -c parley -f -k -a '(__parley_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def script(shell: str, program: str) -> str:
    """The script for a shell; `program` is Parley as the shell runs it."""
    return SCRIPTS[shell].replace("@PROGRAM@", program)
