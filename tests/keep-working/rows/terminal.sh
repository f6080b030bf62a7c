# a launch with a terminal: tty, stty, job control
# run: --tty
tty | grep -q '^/dev/pts/'
echo >/dev/tty
stty -echo
stty -a | grep -q -- '-echo '
stty echo
set -m
sleep 1000 &
job=$!
kill -STOP %1
stopped() { jobs | grep -q Stopped; }
until_so stopped
bg %1
jobs | grep -q Running
kill %1
wait "$job" || is "$?" 143
