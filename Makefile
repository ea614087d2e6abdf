# SPDX-License-Identifier: Apache-2.0
# The habitual names; scripts/ holds what they do, and build/pawl is what `build` leaves.
# `install` installs what was built; it takes PREFIX and DESTDIR.
.PHONY: build run test quick lint bench soak fuzz model mutants install deb site release clean

build:
	scripts/build
run:
	scripts/run
test:
	scripts/test
quick:
	scripts/test --quick
lint:
	scripts/lint
bench: build
	scripts/bench
soak: build
	scripts/soak
fuzz:
	scripts/fuzz
model:
	scripts/model --all
mutants:
	scripts/mutants
install:
	scripts/install
deb:
	scripts/deb
site:
	scripts/site
release:
	scripts/release
clean:
	rm -rf build build-test
