# zip and unzip, gzip, bzip2, xz, zstd: there and back
mkdir in
seq 1000 >in/file
zip -qr in.zip in
unzip -q in.zip -d out
cmp in/file out/in/file
for tool in gzip bzip2 xz zstd; do
    $tool -kc in/file | $tool -dc | cmp - in/file
done
gzip in/file
[ ! -e in/file ] && [ -s in/file.gz ]
