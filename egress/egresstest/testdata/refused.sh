# Programs that are refused: each line is a tool, its exit code, and what it said last.
export HOME=/workspace GIT_TERMINAL_PROMPT=0
cd /workspace
try() {
  name=$1; shift
  if timeout 30 bash -o pipefail -c "$*" >log 2>&1; then echo "$name reached"; else echo "$name $? $(grep -v '^$' log | tail -n 1)"; fi
}
for where in other.example private.example; do
  try curl "curl -sS https://$where/"
  try curl-plain "curl -sS --fail http://$where/"
  try wget "wget -nv -t 1 -O - https://$where/"
  try git "git clone -q https://$where/repo.git"
  try python "python3 -c 'import urllib.request; urllib.request.urlopen(\"https://$where/\")'"
  try node "node -e 'fetch(\"https://$where/\").catch((e) => { console.error(e.cause.message); process.exit(1) })'"
  try ssh "ssh -o StrictHostKeyChecking=no root@$where true"
  try psql "psql -h $where -U tester -c 'select 1'"
done
try pip "PIP_INDEX_URL=https://other.example/simple python3 -m pip download --retries 0 --no-cache-dir tone"
try npm "npm_config_registry=https://other.example/ npm install --fetch-retries 0 --no-audit --no-fund --no-update-notifier tone"
