#!/usr/bin/env bash
# Runs all tests. It installs what they need where it can (as root, by apt-get), says plainly what it goes without and
# why, and ends with the sums. With CI=true a test that was skipped although this machine could have run it is a failure.
set -euo pipefail
cd "$(dirname "$0")"

command -v go >/dev/null || { echo "test.sh: Go is not installed: see https://go.dev/dl" >&2; exit 2; }

# Debian keeps the programs of Postgres off the path.
debian() { for dir in /usr/lib/postgresql/*/bin; do export PATH=$PATH:$dir; done; }
debian

# need PROGRAM PACKAGE WHAT_FOR
need() {
	command -v "$1" >/dev/null && return 0
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "test.sh: installing $2 ($3)"
		{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$2"; } >/dev/null 2>&1 || true
	fi
	debian
	command -v "$1" >/dev/null && return 0
	echo "test.sh: without $1 ($3): install the package $2"
	return 1
}

need dot graphviz "Graphviz reads the graphs that we draw" || true
need initdb postgresql "the store on Postgres is tested on a real one" || true
need redis-server redis-server "values are kept in a real one" || true
race=(-race)
if [ "$(go env CGO_ENABLED)" != 1 ]; then
	race=() && echo "test.sh: without the race detector: cgo is off"
elif ! need "$(go env CC)" gcc "the race detector needs a C compiler"; then
	race=()
fi

# A program with the race detector sleeps a second before it exits. Ours are started by the hundred.
export GORACE="${GORACE:-atexit_sleep_ms=20}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -o "$work/report" .ci/report.go

# section NAME GO_TEST_ARGUMENT... Two packages at once, as many tests wait more than they work; more would starve each other on a
# small machine, for several have servers, processes and clocks of their own.
section() {
	local name=$1 status=0
	shift
	printf '{"Action":"section","Output":"%s"}\n' "$name"
	go test -json -shuffle=on -p 2 "$@" 2>&1 || status=$?
	printf '{"Action":"exit","Output":"%s"}\n' "$status"
}

# The long layers, in which processes die and disks fail, are tests named TestFault… or TestLong…, and the known faults of other
# systems, TestCase…, which play on every store. They run once, built as the program is released and without the race detector,
# which makes them ten times slower and sees nothing of other processes. Many of them wait most of their time: more of them run at
# once than there are processors.
mapfile -t faults < <(grep -rlE '^func Test(Fault|Long|Case)' --include='*_test.go' . | xargs -r -n1 dirname | sort -u)
{
	section "all tests${race:+, with the race detector}" "${race[@]}" -timeout 10m -skip '^Test(Fault|Long|Case)' ./...
	if [ ${#faults[@]} -gt 0 ]; then
		CGO_ENABLED=0 section "long layers" -parallel 4 -timeout 20m -run '^Test(Fault|Long|Case)' "${faults[@]}"
	fi
} | "$work/report"
