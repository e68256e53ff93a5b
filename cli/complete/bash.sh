# Completion of PROGRAM for bash, made by: PROGRAM completion bash
# For this shell: source <(PROGRAM completion bash)
# For all: PROGRAM completion bash > ~/.local/share/bash-completion/completions/PROGRAM

_PROGRAM() {
	local cur=${COMP_WORDS[COMP_CWORD]} IFS=$'\n' found
	found=($(printf '%s\0' "${COMP_WORDS[@]:1:COMP_CWORD}" | "$1" __complete words bash 2>/dev/null))
	[[ $cur != = ]] || cur='' # which is a word of its own here
	COMPREPLY=()
	case ${found[0]} in
	files) COMPREPLY=($(compgen -f -- "$cur")) ;;
	dirs) COMPREPLY=($(compgen -d -- "$cur")) ;;
	esac
	[[ ${found[0]} == words ]] || compopt -o filenames 2>/dev/null
	COMPREPLY+=($(compgen -W "${found[*]:1}" -- "$cur"))
}

complete -F _PROGRAM PROGRAM
