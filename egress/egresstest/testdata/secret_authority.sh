# Who signs what is seen here, and the certificates of ours that are trusted here.
issuer() { openssl s_client -connect "$1:443" -servername "$1" </dev/null 2>/dev/null | sed -n 's/^issuer=.*CN *= *//p'; }
echo "bound: $(issuer exact.example)"
echo "free: $(issuer example.test)"
if [ -e first.pem ]; then curl -sS -o /dev/null --cacert first.pem --capath /nonexistent https://exact.example/ok 2>/dev/null; echo "with the first's: $?"; fi
awk '/BEGIN CERT/ { c = "" } { c = c $0 "\n" } /END CERT/ { print c > ("c" ++n) }' "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}"
for f in c[0-9]*; do
  if openssl x509 -in "$f" -noout -subject | grep -q "sandboxmcp run CA"; then cat "$f"; fi
done
