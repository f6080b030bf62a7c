# curl: file:// URLs, downloads into files
echo text >file
is "$(curl -sS "file://$PWD/file")" text
curl -sS -o copy "file://$PWD/file"
cmp file copy
