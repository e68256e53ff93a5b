#compdef PROGRAM
# Completion of PROGRAM for zsh, made by: PROGRAM completion zsh
# For this shell: source <(PROGRAM completion zsh)
# For all: PROGRAM completion zsh > "${fpath[1]}/_PROGRAM"

_PROGRAM() {
	local cur=$words[CURRENT] at='' flag='' ended='' typed='' word words_ value
	local -a commands flags
	__PROGRAM_at ''
	for word in "${(@)words[2,CURRENT-1]}"; do
		if [[ -n $flag ]]; then
			flag=''
		elif [[ -n $ended ]]; then
			:
		elif [[ $word == -- ]]; then
			ended=1
		elif [[ $word == -*=* ]]; then
			:
		elif [[ $word == -* ]]; then
			__PROGRAM_value "$at" "$word"
			[[ -z $value ]] || flag=$word
		elif [[ -z $typed ]] && (( ${commands[(I)$word:*]} )); then
			at="${at:+$at }$word"
			__PROGRAM_at "$at"
		else
			typed=1
		fi
	done
	if [[ -n $flag ]]; then
		__PROGRAM_value "$at" "$flag"
		__PROGRAM_offer "$value"
	elif [[ -z $ended && $cur == -*=* ]]; then
		__PROGRAM_value "$at" "${cur%%=*}"
		compset -P '*='
		__PROGRAM_offer "$value"
	elif [[ -z $ended && $cur == -* ]]; then
		_describe -t flags flag flags
	else
		[[ -n $typed$ended ]] || (( ! $#commands )) || _describe -t commands command commands
		__PROGRAM_offer "$words_"
	fi
}

# What a source offers.
__PROGRAM_offer() {
	local -a found
	case $1 in
	files) _files ;;
	dirs) _files -/ ;;
	\?*)
		found=(${(f)"$(_call_program words ${(q)words[1]} __complete ${1#?} 2>/dev/null)"})
		compadd -a found
		;;
	'='*)
		found=(${=1#=})
		compadd -a found
		;;
	esac
}
