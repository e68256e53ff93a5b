cd /workspace; head -c 3000000 /dev/zero >z
for host in exact.example front.test; do for v in --http1.1 --http2; do
bad=0; for i in $(seq 40); do curl -sS $v -o /dev/null -T z -H "X-Api-Key: $API_KEY" "https://$host/nothing" 2>>err || bad=$((bad+1)); done; echo "$host $v bad=$bad"; done; done; sort err | uniq -c
