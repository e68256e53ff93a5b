#compdef PROGRAM
# Completion of PROGRAM for zsh, made by: PROGRAM completion zsh
# For this shell: source <(PROGRAM completion zsh)
# For all: PROGRAM completion zsh > "${fpath[1]}/_PROGRAM"

_PROGRAM() {
	local -a found
	found=("${(@f)$(print -rN -- "${(@)words[2,CURRENT]}" | _call_program words ${(q)words[1]} __complete words zsh 2>/dev/null)}")
	local more=$found[1]
	shift found
	(( ! $#found )) || _describe -t words word found
	[[ $more == words || $words[CURRENT] != -*=* ]] || compset -P '*='
	case $more in
	files) _files ;;
	dirs) _files -/ ;;
	esac
}

# A script that was sourced, or one that zsh loads when it first needs it.
if [[ $funcstack[1] == _PROGRAM ]]; then
	_PROGRAM "$@"
else
	compdef _PROGRAM PROGRAM
fi
