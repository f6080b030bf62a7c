# a server and a client on loopback: python's http.server and curl, where the profile has a network; refused where not
echo text >file
cat >serve.py <<'END'
import functools, http.server
handler = functools.partial(http.server.SimpleHTTPRequestHandler)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(server.server_port, flush=True)
server.serve_forever()
END
if [ "$PROFILE" = workspaceWrite ]; then
    coproc python3 serve.py 2>log
    read -r port <&"${COPROC[0]}"
    is "$(curl -sS --noproxy '*' "http://127.0.0.1:$port/file")" text
    is "$(python3 -c 'import sys, urllib.request as r; print(r.build_opener(r.ProxyHandler({})).open(sys.argv[1]).status)' "http://127.0.0.1:$port/file")" 200
    kill "$COPROC_PID"
else
    has "$(python3 serve.py 2>&1)" 'PermissionError: [Errno 1]'
fi
