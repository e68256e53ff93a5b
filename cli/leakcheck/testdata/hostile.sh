# Gives away the secrets of its environment in the ways that a shell has at hand.
env | grep -a -A40 ^LEAK_
export -p
for name in ${!LEAK_*}; do
  s=${!name}
  printf '%s' "$s" | base64
  printf '%s' "$s" | base64 -w 40
  printf '%s' "$s" | base32
  printf '%s' "$s" | od -An -v -t x1
  printf '%s' "$s" | od -An -v -w1000 -t o1
  printf '%s' "$s" | rev
  printf '%s' "$s" | tr a-zA-Z n-za-mN-ZA-M; echo
  printf '%s' "$s" | fold -w 1
  printf '%s\n' "$s" | sed 's/./& /g'
  printf '%q\n' "$s"
  # A quote within quotes, as 'a'\''b', is not known.
  case $s in *\'*) ;; *) printf '%s\n' "${s@Q}"; (set -x; : "$s"); cat "/no/such/$s";; esac
  case $s in */*|*$'\n'*) ;; *) : > "file-$s"; ln -s "$s" "link-$s";; esac
done 2>&1
"${LEAK_000}" 1>&2
printf '%s' "$LEAK_001" > content
exit 3
