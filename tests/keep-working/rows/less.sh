# less: pages in a terminal, ends at q
seq 500 >file
out=$(printf 'Gq' | TERM=xterm script -qec 'less file' /dev/null)
has "$out" 500
is "$(less file | wc -l)" 500
