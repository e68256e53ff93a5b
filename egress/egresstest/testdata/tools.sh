# Programs as people use them: each line of output is a tool and "ok".
export HOME=/workspace GIT_TERMINAL_PROMPT=0 NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
cd /workspace
try() {
  name=$1; shift
  if timeout 20 bash -o pipefail -c "$*" >log 2>&1; then echo "$name: ok"; else echo "$name: exit $?: $(tail -n 12 log)"; fi
}
chmod 600 id
try curl-h1 'curl -sS --fail --http1.1 https://example.test/echo | grep HTTP/1.1'
try curl-h2 'curl -sS --fail --http2 https://example.test/echo | grep HTTP/2.0'
try curl-plain 'curl -sS --fail http://example.test/echo | grep example.test'
try curl-h2c 'curl -sS --fail --http2 http://example.test/echo | grep example.test'
try curl-redirect 'curl -sSL --fail "http://example.test/redirect?to=https://front.test/echo" | grep front.test'
try curl-many 'curl -sS --fail -Z "https://example.test/echo?[1-30]" >/dev/null'
try curl-upload 'head -c 5000000 /dev/zero | curl -sS --fail -T - http://example.test/echo | grep 5000000'
try wget 'wget -q -O - https://example.test/echo | grep example.test'
try git 'git clone -q https://git.example.test/repo.git && grep cloned repo/README'
try pip-download 'PIP_INDEX_URL=https://pypi.example.test/simple python3 -m pip download --no-cache-dir -d wheels tone && ls wheels/tone-1.0-py3-none-any.whl'
try pip-install 'PIP_INDEX_URL=https://pypi.example.test/simple python3 -m pip install --no-cache-dir --target libs tone && PYTHONPATH=libs python3 -c "import tone; print(tone.name)"'
try npm 'npm_config_registry=https://npm.example.test/ npm install --no-audit --no-fund --no-update-notifier tone && node -e "console.log(require(\"tone\"))"'
try node 'node web.mjs'
try psql-require 'psql "host=db.example.test user=tester dbname=postgres sslmode=require" -Atc "select 6*7" | grep 42'
try psql-verify 'psql "host=db.example.test user=tester dbname=postgres sslmode=verify-full sslrootcert=/etc/ssl/certs/ca-certificates.crt" -Atc "select 6*7" | grep 42'
try ssh 'ssh -i id -o UserKnownHostsFile=known_hosts -o IdentitiesOnly=yes root@ssh.example.test anything | grep "over ssh"'
