# flock: a lock that a second process waits for
exec 9>lock
flock 9
code=0
flock --nonblock lock true || code=$?
is "$code" 1
flock lock sh -c 'echo got >got' 9>&- &
[ ! -e got ]
exec 9>&-
wait $!
is "$(cat got)" got
