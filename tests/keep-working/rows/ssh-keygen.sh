# ssh-keygen: a key, a signature and its check
# It asks who runs it, and ends where nobody knows: a uid without a passwd entry needs nss_wrapper, outside of the sandbox too.
if ! getent passwd "$(id -u)" >passwd; then
    ! ssh-keygen -q -t ed25519 -N '' -f key 2>said
    has "$(cat said)" 'No user exists'
    echo "kept:x:$(id -u):$(id -g)::$PWD:/bin/bash" >passwd
    echo "kept:x:$(id -g):" >group
    export LD_PRELOAD=libnss_wrapper.so NSS_WRAPPER_PASSWD=$PWD/passwd NSS_WRAPPER_GROUP=$PWD/group
fi
ssh-keygen -q -t ed25519 -N '' -C kept -f key
echo text >file
ssh-keygen -q -Y sign -f key -n file file
echo "kept $(cut -d' ' -f1,2 key.pub)" >allowed
has "$(ssh-keygen -Y verify -f allowed -I kept -n file -s file.sig <file)" 'Good "file" signature'
