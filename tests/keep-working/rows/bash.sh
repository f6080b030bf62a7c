# bash: here-documents, process substitution, coproc, mapfile, traps, pipes, read -t, ulimit
is "$(cat <<END
$((6 * 7))
END
)" 42
is "$(cat <<<string)" string
is "$(diff <(seq 3) <(seq 2 4) | grep -c '^[<>]')" 2
echo tee > >(cat >copy)
wait $!
is "$(cat copy)" tee
mapfile -t lines < <(seq 3)
is "${#lines[@]}" 3
is "$(bash -c 'trap "echo trapped" TERM; kill $$; echo on')" $'trapped\non'
is "$(seq 100000 | sort -rn | head -n 1)" 100000
code=0
read -rt 0.01 _ < <(exec sleep 1000) || code=$?
[ "$code" -gt 128 ]
is "$(ulimit -c)" 0
is "$(ulimit -n 100 && ulimit -n)" 100
printf '#!/usr/bin/env bash\necho "$0 $1"' >tool
chmod +x tool
is "$(./tool a)" './tool a'
