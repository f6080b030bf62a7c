# tmux: a session in the background, keys sent, its pane read
tmux -L kept -f /dev/null new-session -d -x 80 -y 24 'cat >typed'
tmux -L kept send-keys kept Enter C-d
until_so grep -qsx kept typed
tmux -L kept -f /dev/null new-session -d -s two 'printf shown; tmux -L kept wait-for -S printed; cat'
tmux -L kept wait-for printed
shown() { tmux -L kept capture-pane -p -t two | grep -q shown; }
until_so shown
tmux -L kept kill-server
