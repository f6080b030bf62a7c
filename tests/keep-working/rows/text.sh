# sed -i, awk, grep, sort, jq, bc, diff and patch: text
printf '%s\n' one two three >file
cp file old
sed -i 's/two/2/' file
is "$(awk 'NR == 2' file)" 2
is "$(sort -T . file | xargs)" '2 one three'
diff -u old file >change || is "$?" 1
patch --quiet old <change
cmp old file
grep -rqx 2 .
is "$(echo '{"a":[1,2]}' | jq -c '.a|add')" 3
is "$(echo '2^10' | bc)" 1024
has "$(file file)" 'ASCII text'
