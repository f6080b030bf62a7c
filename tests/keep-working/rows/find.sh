# find -exec, xargs -P, parallel deletes
mkdir in
(cd in && touch $(seq 100))
is "$(find in -type f -exec echo {} + | wc -w)" 100
is "$(find in -type f -print0 | xargs -0 -P 4 -n 10 sh -c 'echo $#' sh | paste -sd+ | bc)" 100
find in -name '1*' -delete
is "$(find in -type f | wc -l)" 88
find in -mindepth 1 -print0 | xargs -0 -P 4 -n 5 rm
rmdir in
