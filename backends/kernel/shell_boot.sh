# A shell that goes on after an error is an interactive one, and reads commands from its input: here a
# pipe to itself. The first of them reads the driver from descriptor 3, behind its length.
exec {pipe}<> <(:)
printf '%s\n' 'read -r -u 3 REPLY; read -r -N "$REPLY" -u 3 REPLY; eval "$REPLY"' >&$pipe
# It would complain that there is no terminal, and print prompts: that is not the program's output.
exec {errors}>&2 2>/dev/null
export KERNEL_ERRORS=$errors
eval "exec \"\$BASH\" --noprofile --norc --noediting -i <&$pipe $pipe>&-"
