# vim: an edit from a script, and one in a terminal, with swap file and undo file
echo one >file
vim -es -u NONE -c '%s/one/two/' -c wq file
is "$(cat file)" two
TERM=xterm script -qec "vim -u NONE -c 'set undofile undodir=. swapfile' -c '%s/two/three/' -c wq file" /dev/null </dev/null >log
is "$(cat file)" three
