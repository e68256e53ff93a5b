# The environment that every script may rely on.
set -eu
fail() { echo "$*" >&2; exit 1; }
[ "$PWD" = /workspace ] || fail "pwd $PWD"
[ "$HOME" = /workspace ] || fail "HOME $HOME"
[ "$(whoami)" ] || fail "no name for user $(id -u)"
for tool in cat ls sed grep sort find tar; do command -v $tool >/dev/null || fail "no $tool"; done
x=ü; [ ${#x} = 1 ] || fail "no UTF-8 locale: $(locale)"
cat <(echo process substitution) >/dev/null
echo x | cat | cat >/tmp/x
[ -z "$(cat)" ] || fail "input"
! [ -e /etc/shadow ] || fail "/etc/shadow"
sleep 0.01 & wait $!
