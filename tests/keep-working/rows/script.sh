# script: a terminal of its own, its size, its typescript, the exit code
code=0
script -qec 'stty rows 30 cols 90; stty size; [ -t 1 ]; exit 3' typescript </dev/null >out || code=$?
is "$code" 3
has "$(cat typescript)" '30 90'
has "$(cat out)" '30 90'
