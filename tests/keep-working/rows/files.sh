# mktemp, ln, mkfifo, chmod, touch, truncate, mv across directories, df, du: the core utilities
file=$(mktemp)
dir=$(mktemp -d)
echo text >"$file"
mv "$file" "$dir/moved"
mv "$dir/moved" moved
is "$(cat moved)" text
rm -r "$dir"
mkfifo fifo
cat fifo >got &
echo through >fifo
wait $!
is "$(cat got)" through
ln moved hard
ln -s moved soft
is "$(stat -c %h moved)" 2
is "$(readlink -f soft)" "$PWD/moved"
chmod 4711 moved
is "$(stat -c %a moved)" 4711
touch -d @1000000000 moved
is "$(stat -c %Y moved)" 1000000000
truncate -s 10 moved
is "$(stat -c %s moved)" 10
fallocate -l 20 moved
is "$(stat -c %s moved)" 20
cp -a moved copy
is "$(stat -c '%a %Y' copy)" "$(stat -c '%a %Y' moved)"
mkdir -p a/b b
mv a/b/ b/c
mv b/c d
dd if=/dev/zero of=zeros bs=1k count=4 conv=fsync status=none
is "$(du -b zeros | cut -f1)" 4096
df . >/dev/null
is "$(head -c 4 /dev/urandom | wc -c)" 4
