# tar: modes, symlinks and hard links, times, kept through gzip, bzip2, xz, zstd
mkdir -p in/a
echo text >in/a/file
chmod 750 in/a/file
touch -d @1000000000 in/a/file
ln -s file in/a/link
ln in/a/file in/a/hard
for suffix in gz bz2 xz zst; do
    tar -caf "in.tar.$suffix" in
    mkdir "$suffix"
    tar -xaf "in.tar.$suffix" -C "$suffix"
    is "$(stat -c '%a %Y %h' "$suffix/in/a/file")" '750 1000000000 2'
    is "$(cat "$suffix/in/a/link")" text
done
