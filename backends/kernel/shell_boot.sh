# A shell that continues after an error is an interactive one, and reads commands from its input: here a pipe to
# itself. The first command reads the driver from descriptor 3, after its length.
exec {pipe}<> <(:)
printf '%s\n' 'read -r -u 3 REPLY; read -r -N "$REPLY" -u 3 REPLY; eval "$REPLY"' >&$pipe
# An interactive bash forgets a SIGINT that came while it waited for a child which did not die of it. This process
# receives it, too, and reports it by another signal, unless the shell reports that it knows.
exec {watcher}> >(
  trap '' HUP QUIT TERM
  trap 'read -r -t 0.05 || kill -s RTMAX $$' INT
  exec {pipe}>&- 3>&- >/dev/null 2>&1
  while read -r || (($? > 128)); do :; done
)
# It would complain about the missing terminal, and print prompts, which are not the program's output.
exec {errors}>&2 2>/dev/null
export KERNEL_ERRORS=$errors KERNEL_WATCHER=$watcher
eval "exec \"\$BASH\" --noprofile --norc --noediting -i <&$pipe $pipe>&-"
