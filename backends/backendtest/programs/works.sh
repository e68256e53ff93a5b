# Everyday operations of shell scripts.
check() {
  name=$1; shift
  if out=$("$@" 2>&1); then state=ok; else state=failed; fi
  out=${out//\\/}; out=${out//\"/}; out=${out//$'\n'/ }; out=${out//$'\t'/ }
  printf 'CHECK {"name":"%s","state":"%s","detail":"%s"}\n' "$name" "$state" "${out:0:500}"
}
pipes() { [ "$(seq 1000 | sort -rn | head -1)" = 1000 ]; }
here_documents() { [ "$(cat <<<x)" = x ]; }
job_control() { sleep 100 & kill $!; wait $! ; [ $? = 143 ]; }
traps() { [ "$(bash -c 'trap "echo bye" EXIT; exit 0')" = bye ]; }
find_and_xargs() { mkdir -p a/b && touch a/b/c && [ "$(find a -type f -print0 | xargs -0 basename)" = c ]; }
archives() { mkdir -p t && echo x >t/x && tar czf t.tgz t && rm -r t && tar xzf t.tgz && [ "$(cat t/x)" = x ]; }
text_tools() { [ "$(printf 'a b\n' | awk '{print $2}' | sed s/b/c/ | tr c d)" = d ]; }
editors() { printf 'x\n' >e && sed -i s/x/y/ e && [ "$(cat e)" = y ]; }
loopback_by_bash() { ! (exec 3<>/dev/tcp/127.0.0.1/1) 2>/dev/null; }
temporary() { f=$(mktemp) && d=$(mktemp -d) && [ -w "$f" ] && [ -d "$d" ]; }
coprocesses() { coproc cat; echo x >&"${COPROC[1]}"; read -r y <&"${COPROC[0]}"; [ "$y" = x ]; }
dates() { [ "$(date -u -d @0 +%Y)" = 1970 ]; }
limits() { ulimit -a >/dev/null && [ "$(ulimit -c)" = 0 ]; }
users() { [ "$(id -un)" ] && [ "$(id -u)" != 0 ]; }
alternatives() { awk 'BEGIN { print 1 }'; }
for c in pipes here_documents job_control traps find_and_xargs archives text_tools editors loopback_by_bash temporary \
  coprocesses dates limits users alternatives; do check $c $c; done
echo ALL DONE
