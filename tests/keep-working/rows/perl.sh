# perl: -pi, fork, pipes, a lock, a socket pair
echo one >file
perl -pi -e 's/one/two/' file
is "$(cat file)" two
is "$(perl -MSocket -MFcntl=:flock -e '
    socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or die $!;
    if (!fork) { open my $lock, ">", "lock"; flock $lock, LOCK_EX or die $!; syswrite $b, `echo child`; exit }
    wait; sysread $a, my $got, 100; print $got')" child
