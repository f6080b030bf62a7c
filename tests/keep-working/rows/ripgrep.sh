# ripgrep: a parallel search that heeds .gitignore
mkdir -p a/.git a/b
echo needle >a/b/file
echo needle >a/ignored
echo ignored >a/.gitignore
is "$(cd a && rg --files-with-matches needle | xargs)" b/file
is "$(cd a && rg --no-ignore --count needle | wc -l)" 2
