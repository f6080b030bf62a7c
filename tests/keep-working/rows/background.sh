# nohup, setsid, timeout, nice, wait: processes in the background, sessions of their own
nohup sh -c 'echo nohup >nohup.log' >/dev/null 2>&1 &
wait $!
is "$(cat nohup.log)" nohup
is "$(setsid --wait sh -c 'ps -o sid= -p $$ | tr -d " "; echo $$' | uniq | wc -l)" 1
code=0
timeout 0.1 sleep 1000 || code=$?
is "$code" 124
is "$(nice -n 5 nice)" "$(($(nice) + 5))"
sleep 1000 &
kill -0 $!
kill $!
code=0
wait $! || code=$?
is "$code" 143
is "$(ionice)" "$(ionice -p $$)"
