# ssh-keygen: a key, a signature and its check
# needs: passwd
ssh-keygen -q -t ed25519 -N '' -C kept -f key
echo text >file
ssh-keygen -q -Y sign -f key -n file file
echo "kept $(cut -d' ' -f1,2 key.pub)" >allowed
has "$(ssh-keygen -Y verify -f allowed -I kept -n file -s file.sig <file)" 'Good "file" signature'
