# tmux: a session in the background, keys sent, its pane read
tmux -L kept -f /dev/null new-session -d -x 80 -y 24 'cat >typed'
tmux -L kept send-keys kept Enter C-d
until_so grep -qsx kept typed
# A server of its own: the first one ends with its last session, now or in a moment.
tmux -L second -f /dev/null new-session -d -s two 'printf shown; tmux -L second wait-for -S printed; cat'
tmux -L second wait-for printed
shown() { tmux -L second capture-pane -p -t two | grep -q shown; }
until_so shown
tmux -L second kill-server
