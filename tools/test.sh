#!/usr/bin/env bash
# Runs every check of CI in order, stops at the first that fails, and ends with the counts of tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

results=bin/test
rm -rf "$results"
mkdir -p "$results"

# count ACTION: how many tests ended that way, subtests included.
count() {
	cat "$results"/*.json 2>/dev/null | grep -c "\"Action\":\"$1\".*\"Test\":" || true
}

summary() {
	local status=$? failed
	failed=$(count fail)
	echo
	if ((status != 0)); then
		((failed)) || failed=1 # a build, lint or other step counts as one
		echo "FAILED at: $current, after ${SECONDS}s"
	else
		echo "every step passed in ${SECONDS}s"
	fi
	echo "$(count pass) passed, $failed failed, $(count skip) skipped"
}
trap summary EXIT

current=start
step() {
	local began=$SECONDS
	current=$1
	printf '\n==> [%4ds] %s\n' "$SECONDS" "$1"
	shift
	"$@"
	echo "    done in $((SECONDS - began))s"
}

run() { "${MAKE:-make}" "$@"; }

step "tools (several minutes the first time)" run tools
step "format" run fmt-check
step "vet" run vet
step "lint" run lint
step "generated files and modules are fresh" run verify
step "architecture" run arch
step "unit and property tests, race detector on" run race
step "2,000 simulated clusters and days of churn" run sim SEEDS=2000
step "emulated AWS and kubelets, race detector on" run sandbox-race
step "sandbox tests (Kubernetes compiles the first time, ten minutes)" run sandbox-test
step "sandbox lint" run sandbox-lint
