# rsync: a tree with its times and modes, a second time without a change, --delete
mkdir -p from/a
echo text >from/a/file
chmod 640 from/a/file
touch -d @1000000000 from/a/file
rsync -a from/ to
is "$(stat -c '%a %Y' to/a/file)" '640 1000000000'
is "$(rsync -ai from/ to)" ''
rm from/a/file
rsync -a --delete from/ to
[ ! -e to/a/file ]
