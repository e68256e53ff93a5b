# What a program gets when the bound name's server can't prove who it is: port, status and text.
cd /workspace
for port in 9443 8443 8444 8445 8446 8447 8448 8449 8450; do
  echo "$port $(curl -sS -m 10 -w ' ' -o body -w '%{http_code}' -H "X-Api-Key: $API_KEY" "https://exact.example:$port/ok" 2>&1) $(tr '\n' ' ' <body)"
  rm -f body
done
for port in 443 8443; do
  echo "plain-$port $(curl -sS -m 10 -o body -w '%{http_code}' -H "X-Api-Key: $API_KEY" "http://exact.example:$port/ok" 2>&1) $(tr '\n' ' ' <body)"
done
