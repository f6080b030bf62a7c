# strace: a child and what it forks; attaching to a sibling
strace -f -o trace -e trace=execve,write sh -c '/bin/echo traced & wait'
has "$(cat trace)" 'execve("/bin/echo", ["/bin/echo", "traced"]'
has "$(cat trace)" 'write(1, "traced\n", 7)'
coproc cat
strace -o attached -e trace=read,write -p "$COPROC_PID" 2>log &
until_so grep -q attached log
echo line >&"${COPROC[1]}"
read -r line <&"${COPROC[0]}"
is "$line" line
kill "$COPROC_PID"
wait
has "$(cat attached)" 'write(1, "line\n", 5)'
