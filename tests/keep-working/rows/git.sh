# git: init, commit with a hook, clone, worktree and a commit in it, merge, gc
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@localhost GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@localhost
git init --quiet --initial-branch=main origin
printf '#!/bin/sh\necho hooked >hooked\n' >origin/.git/hooks/pre-commit
chmod +x origin/.git/hooks/pre-commit
echo one >origin/file
git -C origin add file
git -C origin commit --quiet --message=one
is "$(cat origin/hooked)" hooked
git clone --quiet origin clone
git -C clone worktree add --quiet -b side ../side
echo two >>side/file
git -C side commit --quiet --all --message=two
git -C clone merge --quiet side
is "$(git -C clone log --format=%s | xargs)" 'two one'
git -C clone gc --quiet
git -C clone fsck --strict
is "$(git -C clone status --porcelain)" ''
