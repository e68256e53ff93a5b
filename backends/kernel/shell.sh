# The driver of a shell session: the bootstrap evaluates it.
#
# Why an interactive shell: another one exits at the first ${x:?}, unbound variable under set -u or assignment to a
# readonly variable, and state would be lost. An interactive one abandons its command, at any depth, and returns to
# its prompt. There it executes PROMPT_COMMAND: __kernel_between reports how the cell ended and waits for the next,
# and eval runs that outside of any function, so that its declarations are global. For a prompt it then reads a
# line, which PROMPT_COMMAND has written into the pipe that is its input; after an abandoned cell it does not.
#
# A request is a line of words (operation, number, then the length of each field in bytes), and the
# fields. A reply is a frame of fields that each end with a NUL byte, which bash can write but not read.
#
# Each cell starts with the session's own descriptors 0, 1 and 2. Known gaps: "builtin exit", exit in POSIX mode,
# and an error under set -e beside a trap on ERR or EXIT that was set out of sight (by a file, or by a cell that
# also names RETURN or DEBUG), end the session. $LINENO counts from the session's beginning.

# exit ends the cell; in a subshell, the subshell. set -x does not show its implementation.
exit() {
  { builtin set -- "$?" "$@" && __kernel_exit "$@"; } 2>/dev/null
  if [[ $BASHPID != "$$" || $__kernel_how == closing ]]; then
    builtin exit "${@:$# > 1 ? 2 : 1}"
  fi
  (builtin exit "${@:2}") # reports the usage error
  (($# > 2)) || __kernel_leave exit 2
  builtin return 1
}

__kernel_exit() {
  [[ $BASHPID == "$$" && $__kernel_how != closing && $# -le 2 && ${2-0} == ?([-+])+([0-9]) ]] || builtin return 0
  __kernel_leave exit "$((${2-$1} & 255))"
}

# __kernel_leave abandons the cell. SIGINT is the only exit from everything, including traps, evals and sourced
# files.
__kernel_leave() {
  __kernel_how=$1 __kernel_status=$2
  if [[ $__kernel_failed ]]; then
    __kernel_failed=
    builtin set -e
  fi
  __kernel_erring=
  __kernel_keep
  PROMPT_COMMAND=$__kernel_prompt
  builtin unset -v TMOUT
  builtin trap - INT
  builtin kill -INT "$$"
}

# __kernel_exiting comes first in a trap on EXIT. Some errors under set -e exit at once, deep inside of eval, and
# from there it can still return.
__kernel_exiting() {
  if [[ $__kernel_how == begun && $BASHPID == "$$" ]]; then
    __kernel_leave exit "$(($1 ? $1 : 1))"
  fi
  builtin return "$1"
}

# __kernel_interrupted is the trap on SIGINT.
__kernel_interrupted() {
  if [[ $__kernel_how == begun && $__kernel_erring ]]; then
    __kernel_how=interrupted # leaving from here would make bash believe that the trap on ERR never ends
  elif [[ $__kernel_how == begun ]]; then
    __kernel_leave interrupted 130
  fi
}

# __kernel_reminded is the trap on RTMAX, by which the bootstrap's helper process reports a SIGINT. It is for a cell
# that was running then.
__kernel_reminded() {
  if ((${EPOCHREALTIME/[.,]/} - __kernel_began > 200000)); then
    __kernel_interrupted
  fi
}

# __kernel_keep records the program's own trap on SIGINT, if it may have one, and restores ours on EXIT.
__kernel_keep() {
  [[ $__kernel_traps ]] || builtin return 0
  __kernel_sigint=$(builtin trap -p INT)
  [[ $__kernel_sigint != *__kernel_interrupted* ]] || __kernel_sigint=
  [[ $(builtin trap -p EXIT) ]] || builtin trap '__kernel_exiting $?' EXIT
}

# __kernel_errexit is called before and after a program's own trap on ERR. That trap and set -e react to the same
# failures, the trap first: it ends the cell before set -e can end the session. Between the two calls set -e is off,
# and $? has its former value.
__kernel_errexit() {
  if (($#)); then
    __kernel_erring=1
    if [[ $- == *e* ]]; then
      __kernel_failed=$1
      builtin set +e
    fi
    builtin return "$1"
  fi
  if [[ $__kernel_failed && $BASHPID != "$$" ]]; then
    __kernel_failed=
    builtin set -e # ends the subshell now
    builtin return 0
  fi
  __kernel_erring=
  if [[ $__kernel_how == interrupted ]]; then
    __kernel_leave interrupted 130
  elif [[ $__kernel_failed ]]; then
    __kernel_leave exit "$__kernel_failed"
  fi
}

# __kernel_shadow is evaluated for a cell that has a trap on ERR or EXIT, so that ours continue to work, and for no
# other: bash gives traps on DEBUG and RETURN another meaning if a function sets them for its caller.
__kernel_shadow='trap() {
  if [[ $1 == -- ]]; then builtin shift; fi
  if [[ $# -lt 2 || $1 == -[lp]* ]]; then builtin trap "$@"; builtin return; fi
  builtin local __kernel_sig __kernel_bad=0 __kernel_do="$1" __kernel_exit
  if [[ $1 == - ]]; then __kernel_do=; fi
  for __kernel_sig in "${@:2}"; do
    case $__kernel_sig in
    [Ee][Rr][Rr]) builtin trap -- "{ __kernel_errexit \$?; } 2>/dev/null; $__kernel_do
{ __kernel_errexit; } 2>/dev/null" ERR ;;
    [Ee][Xx][Ii][Tt] | 0)
      __kernel_exit="__kernel_exiting \$?"
      if [[ $__kernel_do ]]; then
        __kernel_exit="if __kernel_exiting \$?; then
$__kernel_do
else
$__kernel_do
fi"
      fi
      builtin trap -- "$__kernel_exit" EXIT
      ;;
    *) builtin trap -- "$1" "$__kernel_sig" || __kernel_bad=1 ;;
    esac
  done
  builtin return $__kernel_bad
}'

# __kernel_begin is a cell's first command. Before it, the cell is being parsed, and complaints are not its own.
__kernel_begin() {
  __kernel_began=${EPOCHREALTIME/[.,]/}
  __kernel_how=begun
  exec 2>&3 3>&- # "builtin exec" would not last
  { builtin return "$__kernel_status"; } 2>/dev/null
}

__kernel_end() {
  __kernel_status=$? __kernel_how=ended
}

# __kernel_between runs between two cells, and ignores SIGINT.
__kernel_between() {
  case $__kernel_how in begun | ended) __kernel_keep ;; esac
  builtin trap '' INT RTMAX
  builtin set -o errtrace
  if [[ $__kernel_how == interrupted && $- == *e* ]]; then
    __kernel_probe
  fi
  builtin local - IFS=$' \t\n' LC_ALL=C TMOUT=0
  builtin set +e +f +u +v +x +o noclobber
  if [[ $__kernel_id ]]; then
    __kernel_finish || builtin return 0
  fi
  until __kernel_serve; do :; done
  builtin return 0
}

# __kernel_probe checks whether there is still a trap on ERR: an interrupt that bash handled while it began that
# trap leaves it off permanently. Without the trap, set -e would end the session.
__kernel_probe() {
  builtin set +e
  builtin set -- "$(builtin trap -p ERR)"
  __kernel_alive=
  builtin trap __kernel_alive=1 ERR
  builtin false
  builtin eval "builtin $1"
  if [[ $__kernel_alive ]]; then
    builtin set -e
  else
    builtin echo 'bash: set -e is off from here on, because of the interrupt' >&$__kernel_err
  fi
}

# __kernel_finish reports the cell. It fails if the cell has to be tried in another form.
__kernel_finish() {
  builtin local __kernel_exit=
  builtin local -a __kernel_error
  case $__kernel_how in
  parsed) __kernel_syntax || builtin return ;;
  begun) __kernel_status=$((__kernel_last ? __kernel_last : !__kernel_plain)) ;;
  interrupted) __kernel_error=(Interrupted 'the cell was interrupted' '') ;;
  esac
  if [[ $__kernel_how == exit ]] || [[ $__kernel_status != 0 && ! $__kernel_error ]]; then
    __kernel_exit=$__kernel_status
  fi
  if ((__kernel_status == 130)); then
    builtin echo >&$__kernel_watcher
  fi
  builtin printf '\0%s\0' "$__kernel_mark" >&$__kernel_out
  builtin printf '\0%s\0' "$__kernel_mark" >&$__kernel_err
  __kernel_reply done "$__kernel_id" run "$__kernel_exit" "${__kernel_error[@]}"
  if [[ $__kernel_shadowed ]]; then
    builtin unset -f trap
  fi
  __kernel_id= __kernel_source= __kernel_code= __kernel_shadowed=
}

# __kernel_syntax asks another bash for the error. If it finds none, the braces around the cell are the cause: an
# unterminated here document took the last one, the last line continues, or there is no command.
__kernel_syntax() {
  builtin local __kernel_option=+O __kernel_text
  ! builtin shopt -q extglob || __kernel_option=-O
  __kernel_text=$(builtin printf '%s' "$__kernel_source" | BASH_ENV= "$BASH" --norc "$__kernel_option" extglob -n 2>&1) &&
    [[ ! $__kernel_plain ]] && { __kernel_prepare 1; builtin return 1; }
  __kernel_text=${__kernel_text//"$BASH: line "/line }
  __kernel_status=2
  __kernel_error=(SyntaxError "${__kernel_text%%$'\n'*}" "$__kernel_text")
}

# __kernel_prepare makes the text for eval. It is a single command, otherwise the text after the abandoned line
# would be executed, and it starts with && or ||, for which $? is that of the previous cell.
__kernel_prepare() {
  __kernel_plain=$1 __kernel_how=parsed
  builtin local __kernel_then='||'
  ((__kernel_status)) || __kernel_then='&&'
  if [[ $1 ]]; then
    __kernel_code="__kernel_begin $__kernel_then builtin :"$'\n'$__kernel_source
  else
    __kernel_code="__kernel_begin $__kernel_then { $__kernel_source"$'\n}; { __kernel_end; } 2>/dev/null'
  fi
  if [[ $__kernel_sigint ]]; then
    builtin eval "builtin $__kernel_sigint"
  else
    builtin trap __kernel_interrupted INT
  fi
  builtin trap __kernel_reminded RTMAX
}

# __kernel_serve answers one request. It succeeds if that is a cell, which is then ready to run.
__kernel_serve() {
  builtin local __kernel_field
  builtin local -a __kernel_words __kernel_fields
  if ! builtin read -r -u "$__kernel_host" -a __kernel_words; then
    __kernel_how=closing
    builtin exit 0
  fi
  builtin set -- "${__kernel_words[@]}"
  for __kernel_field in "${@:4}"; do
    __kernel_read "$__kernel_field"
  done
  case $1 in
  run | lines)
    __kernel_id=$2 __kernel_mark=$3
    __kernel_run "$1" "${__kernel_fields[@]}"
    builtin return 0
    ;;
  set) __kernel_set "$2" "${__kernel_fields[@]}" ;;
  get) __kernel_get "$2" "${__kernel_fields[@]}" ;;
  vars) __kernel_vars "$2" ;;
  esac
  builtin return 1
}

__kernel_read() {
  builtin local __kernel_text=
  (($1 == 0)) || builtin read -r -N "$1" -u "$__kernel_host" __kernel_text
  __kernel_fields+=("$__kernel_text")
}

# __kernel_run receives a cell: how to evaluate it, its code, its environment. The options that change how code is
# parsed have to be set before the cell that sets them.
__kernel_run() {
  builtin local __kernel_lines=
  [[ $1 != lines ]] || __kernel_lines=1
  __kernel_source=$2
  builtin shift 2
  for __kernel_field; do
    builtin export -- "$__kernel_field"
  done
  case $__kernel_source in *extglob*) builtin shopt -s extglob ;; esac
  case $__kernel_source in *trap*) __kernel_traps=1 ;; esac
  case $__kernel_source in
  *RETURN* | *DEBUG*) ;;
  *trap*[Ee][Rr][Rr]* | *trap*[Ee][Xx][Ii][Tt]*)
    builtin eval "$__kernel_shadow"
    __kernel_shadowed=1
    ;;
  esac
  __kernel_prepare "$__kernel_lines"
}

# __kernel_reply sends one frame.
__kernel_reply() {
  builtin local __kernel_size=0 __kernel_head __kernel_field
  for __kernel_field; do
    ((__kernel_size += ${#__kernel_field} + 1))
  done
  if ((__kernel_size > 64 << 20)); then
    __kernel_reply done "$2" error ValueError "$__kernel_size bytes are too much: use a file" ''
    builtin return
  fi
  builtin printf -v __kernel_head '\\x%02x' $((__kernel_size >> 24)) $((__kernel_size >> 16 & 255)) \
    $((__kernel_size >> 8 & 255)) $((__kernel_size & 255))
  {
    builtin printf "$__kernel_head"
    builtin printf '%s\0' "$@"
  } >&$__kernel_host
}

__kernel_named() {
  [[ $1 == [a-zA-Z_]*([a-zA-Z0-9_]) && $1 != __kernel_* ]]
}

# __kernel_set makes a variable from a text, and a file from its JSON.
__kernel_set() {
  builtin local __kernel_dir="${BRIDGE:-$HOME/.bridge}"
  if ! __kernel_named "$2"; then
    __kernel_reply done "$1" error NameError "$2 can't be the name of a shell variable" ''
  elif ! builtin unset -v -- "$2" || ! builtin printf -v "$2" '%s' "$3"; then
    __kernel_reply done "$1" error NameError "$2 is a variable that can't be changed" ''
  elif ! { [[ -d $__kernel_dir ]] || builtin command mkdir -p -- "$__kernel_dir"; } ||
    ! builtin printf '%s' "$4" >"$__kernel_dir/$2.json"; then
    __kernel_reply done "$1" error OSError "$__kernel_dir/$2.json can't be written" ''
  else
    __kernel_reply done "$1" ok
  fi
}

__kernel_get() {
  if ! __kernel_named "$2"; then
    __kernel_reply done "$1" error NameError "$2 can't be the name of a shell variable" ''
    builtin return
  fi
  builtin local -n __kernel_ref=$2
  builtin local __kernel_key
  builtin local -a __kernel_pairs
  case ${__kernel_ref@a} in
  *a*) __kernel_reply done "$1" list "${__kernel_ref[@]}" ;;
  *A*)
    for __kernel_key in "${!__kernel_ref[@]}"; do
      __kernel_pairs+=("$__kernel_key" "${__kernel_ref[$__kernel_key]}")
    done
    __kernel_reply done "$1" map "${__kernel_pairs[@]}"
    ;;
  *)
    if [[ -v $2 ]]; then
      __kernel_reply done "$1" text "$__kernel_ref"
    else
      __kernel_reply done "$1" error NameError "$2 is not set" ''
    fi
    ;;
  esac
}

# __kernel_names lists all variables except bash's own.
__kernel_names() {
  builtin local __kernel_letter
  __kernel_all=()
  for __kernel_letter in {a..z} {A..Z} _; do
    builtin eval "__kernel_all+=(\"\${!$__kernel_letter@}\")"
  done
}

__kernel_vars() {
  builtin local __kernel_name
  builtin local -a __kernel_all __kernel_list
  __kernel_names
  for __kernel_name in "${__kernel_all[@]}"; do
    case $__kernel_name in
    __kernel_* | _ | BASH* | COLUMNS | COMP_* | FUNCNAME | LC_ALL | LINES | OLDPWD | OPTARG | PIPESTATUS | TMOUT) continue ;;
    esac
    if [[ ! ${__kernel_known[$__kernel_name]} ]]; then
      __kernel_describe "$__kernel_name"
    fi
  done
  __kernel_reply done "$1" vars "${__kernel_list[@]}"
}

# __kernel_describe appends a variable's name, type, text, size and unit to the list.
__kernel_describe() {
  builtin local -n __kernel_ref=$1
  builtin local __kernel_key __kernel_text= __kernel_n=0
  case ${__kernel_ref@a} in
  *[aA]*)
    for __kernel_key in "${!__kernel_ref[@]}"; do
      ((__kernel_n++ < 16)) || break
      __kernel_text+=" [$__kernel_key]=${__kernel_ref[$__kernel_key]:0:256}"
    done
    # The search for secrets recognises a cut only at the end of a text.
    __kernel_text="(${__kernel_text:1})"
    case ${__kernel_ref@a} in *A*) builtin set -- "$1" map ;; *) builtin set -- "$1" array ;; esac
    __kernel_list+=("$@" "${__kernel_text:0:256}" "${#__kernel_ref[@]}" elements)
    ;;
  *i*) __kernel_list+=("$1" integer "${__kernel_ref:0:256}" "${#__kernel_ref}" bytes) ;;
  *) __kernel_list+=("$1" string "${__kernel_ref:0:256}" "${#__kernel_ref}" bytes) ;;
  esac
}

set +o history +o histexpand +o monitor -o errtrace
shopt -s execfail
unset -v HISTFILE REPLY
PS1= PS2=
export BRIDGE="${BRIDGE:-$HOME/.bridge}"
# Copies of the program's descriptors and of the host's. They are closed while a cell runs: bash then keeps them at
# numbers that children do not inherit.
exec {__kernel_out}>&1 {__kernel_err}>&"$KERNEL_ERRORS" {__kernel_host}>&3 \
  {__kernel_watcher}>&"$KERNEL_WATCHER"
eval "exec >/dev/null 2>&1 3>&- $KERNEL_ERRORS>&- $KERNEL_WATCHER>&-"
unset -v KERNEL_ERRORS KERNEL_WATCHER
# How the cell has ended: "parsed" (its syntax is wrong), "begun" (bash abandoned it), "ended", "exit",
# "interrupted"; or "closing", if the session ends.
__kernel_how= __kernel_status=0 __kernel_last=0 __kernel_began=0 __kernel_erring= __kernel_failed= __kernel_plain=
__kernel_id= __kernel_mark= __kernel_source= __kernel_code= __kernel_traps= __kernel_sigint= __kernel_shadowed=
trap '{ __kernel_errexit $?; __kernel_errexit; } 2>/dev/null' ERR
trap '__kernel_exiting $?' EXIT
trap '' INT RTMAX
# The line restores settings that programs may have changed: with TMOUT, bash would log out.
printf -v __kernel_prompt '__kernel_between; %s; __kernel_last=$?; \\builtin printf "%%s\\n" "$__kernel_line" >&0' \
  '\builtin eval "$__kernel_code" </dev/null >&'"$__kernel_out 2>/dev/null 3>&$__kernel_err $__kernel_out>&- $__kernel_err>&- $__kernel_host>&- $__kernel_watcher>&-"
__kernel_line='[[ ${PROMPT_COMMAND-} == "$__kernel_prompt" ]] || PROMPT_COMMAND=$__kernel_prompt; \unset -v TMOUT'
PROMPT_COMMAND=$__kernel_prompt
declare -A __kernel_known=()
__kernel_names
for __kernel_name in "${__kernel_all[@]}"; do __kernel_known[$__kernel_name]=1; done
readonly -f __kernel_{exit,leave,interrupted,reminded,probe,exiting,keep,errexit,begin,end,between,finish,syntax,prepare,serve,read,run,reply} \
  __kernel_{named,set,get,names,vars,describe}
__kernel_reply ready "${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}"
