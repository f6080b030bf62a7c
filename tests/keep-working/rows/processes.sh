# ps, pgrep, pkill, top, free, uptime, nproc: the processes of the launch
bash -c 'exec -a kept-working sleep 1000' &
# The shell forks before it becomes that.
named() { [ "$(ps -o args= -p "$1")" = 'kept-working 1000' ]; }
until_so named $!
until_so pgrep -f '^kept-working 1000'
pkill -f '^kept-working 1000'
code=0
wait $! || code=$?
is "$code" 143
has "$(ps -ef)" PPID
has "$(top -bn1)" 'load average'
has "$(free -m)" Mem:
[ "$(nproc)" -ge 1 ]
has "$(uname -a)" Linux
[ "$(id -u)" = "$UID" ]
