# Programs as people use them, with a placeholder: each line of output is a tool and "ok".
export HOME=/workspace GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=1
cd /workspace
api=https://exact.example
try() {
  name=$1; shift
  if timeout 20 bash -o pipefail -c "$*" >log 2>&1; then echo "$name: ok"; else echo "$name: exit $?: $(tail -n 12 log)"; fi
}
export api
try curl-h1 'curl -sS --fail --http1.1 -H "Authorization: Bearer $API_KEY" $api/ok | grep -w known'
try curl-h2 'curl -sS --fail --http2 -H "Authorization: Bearer $API_KEY" $api/ok -w "%{http_version}" | grep -w 2'
try curl-basic 'curl -sS --fail -u "me:$API_KEY" $api/ok | grep -w known'
try curl-query 'curl -sS --fail -G -d "key=$API_KEY" $api/ok | grep -w known'
try curl-many 'curl -sS --fail -Z -H "X-Api-Key: $API_KEY" "$api/ok?[1-30]" | grep -cw known | grep 30'
try curl-redirect 'curl -sSL --fail -H "X-Api-Key: $API_KEY" "$api/redirect?to=$api/ok" | grep -w known'
try curl-compressed 'curl -sS --fail --compressed -H "X-Api-Key: $API_KEY" "$api/ok" | grep -w known'
try curl-upload 'head -c 3000000 /dev/zero | curl -sS --fail -T - -H "X-Api-Key: $API_KEY" "$api/ok" | grep -w known'
try curl-events 'curl -sS --fail -N -H "X-Api-Key: $API_KEY" "$api/events" | grep -c data: | grep 3'
try curl-json-body 'curl -sS --fail --json "{\"k\": \"$BODY_KEY\"}" https://front.test/body | grep -w "body known"'
try curl-form-body 'curl -sS --fail --data-urlencode "k=$BODY_KEY" https://front.test/body | grep -w "body known"'
try curl-own-ca 'openssl s_client -connect exact.example:443 -servername exact.example </dev/null | grep "sandboxmcp run CA"'
try curl-real-ca 'openssl s_client -connect example.test:443 -servername example.test </dev/null >got; grep "test authority" got && ! grep sandboxmcp got'
try wget 'wget -q -O - --header "Authorization: Bearer $API_KEY" $api/ok | grep -w known'
try wget-basic 'wget -q -O - --auth-no-challenge --user me --password "$API_KEY" $api/ok | grep -w known'
try urllib 'python3 secret.py urllib'
try http.client 'python3 secret.py client'
try requests 'python3 secret.py requests'
try websocket 'python3 secret.py websocket'
try node-fetch 'node secret.mjs fetch'
try node-https 'node secret.mjs https'
try node-http2 'node secret.mjs http2'
try git-url 'git clone -q https://me:$API_KEY@exact.example/repo.git a && grep cloned a/README'
try git-header 'git -c http.extraHeader="Authorization: Bearer $API_KEY" clone -q $api/repo.git b && grep cloned b/README'
try git-basic-header 'git -c http.extraHeader="Authorization: Basic $(printf "me:%s" "$API_KEY" | base64 -w0)" clone -q $api/repo.git c && grep cloned c/README'
try git-push 'cd a && date +%N >more && git add more && git -c user.name=t -c user.email=t@example.test commit -q -m more && git push -q origin main'
try pip 'PIP_INDEX_URL=https://me:$API_KEY@exact.example/simple python3 -m pip install --no-cache-dir --target libs tone && PYTHONPATH=libs python3 -c "import tone; print(tone.name)"'
try npm 'printf "registry=%s/\n//exact.example/:_authToken=\${API_KEY}\n" $api >.npmrc && npm install --no-audit --no-fund --no-update-notifier tone && node -e "console.log(require(\"tone\"))"'
try no-key 'test "$(curl -sS -o /dev/null -w "%{http_code}" $api/repo.git/info/refs)" = 401'
