# Completion of PROGRAM for bash, made by: PROGRAM completion bash
# For this shell: source <(PROGRAM completion bash)
# For all: PROGRAM completion bash > ~/.local/share/bash-completion/completions/PROGRAM

_PROGRAM() {
	local cur=${COMP_WORDS[COMP_CWORD]} path='' flag='' ended='' typed='' i word
	local commands flags words value
	COMPREPLY=()
	__PROGRAM_at ''
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ -n $flag ]]; then # its value; a = before that is a word of its own here
			[[ $word == = ]] || flag=''
		elif [[ -n $ended ]]; then
			:
		elif [[ $word == -- ]]; then
			ended=1
		elif [[ $word == -* ]]; then
			__PROGRAM_value "$path" "$word"
			[[ -z $value ]] || flag=$word
		elif [[ -z $typed && " $commands " == *" $word "* ]]; then
			path="${path:+$path }$word"
			__PROGRAM_at "$path"
		else
			typed=1
		fi
	done
	[[ $cur != = ]] || cur=''
	if [[ -n $flag ]]; then
		__PROGRAM_value "$path" "$flag"
		__PROGRAM_offer "$value" "$1"
	elif [[ -z $ended && $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$flags" -- "$cur"))
	else
		__PROGRAM_offer "$words" "$1"
		[[ -n $typed$ended ]] || COMPREPLY+=($(compgen -W "$commands" -- "$cur"))
	fi
}

# What a source offers, of which the second word is the program.
__PROGRAM_offer() {
	local IFS=$' \t\n'
	case $1 in
	files)
		IFS=$'\n'
		COMPREPLY=($(compgen -f -- "$cur"))
		compopt -o filenames 2>/dev/null
		;;
	dirs)
		IFS=$'\n'
		COMPREPLY=($(compgen -d -- "$cur"))
		compopt -o filenames 2>/dev/null
		;;
	\?*) COMPREPLY=($(compgen -W "$("$2" __complete "${1#?}" 2>/dev/null)" -- "$cur")) ;;
	=*) COMPREPLY=($(compgen -W "${1#=}" -- "$cur")) ;;
	esac
}
