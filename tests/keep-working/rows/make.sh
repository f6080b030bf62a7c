# make: -j with a jobserver that a second make shares
cat >Makefile <<'END'
all: $(foreach n,1 2 3 4 5 6 7 8,out/$(n)) sub
out/%:
	@mkdir -p out; printf %s $* >$@
sub:
	+@$(MAKE) --no-print-directory inner; echo "$(MAKEFLAGS)" >flags
inner: $(foreach n,a b c d,out/$(n))
.PHONY: all sub inner
END
make -j4
is "$(cat out/*)" 12345678abcd
has "$(cat flags)" jobserver
