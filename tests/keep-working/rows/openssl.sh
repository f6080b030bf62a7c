# openssl: a key, a certificate, a digest, random bytes
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key -out cert -subj /CN=kept -days 1 2>log
has "$(openssl x509 -in cert -noout -subject)" kept
has "$(openssl verify -CAfile cert cert)" 'cert: OK'
is "$(openssl rand -hex 8 | wc -c)" 17
