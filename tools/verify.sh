#!/usr/bin/env bash
# Fails when a generated file or a go.mod is stale. It writes nothing into the tree, so a dirty one is
# fine, and does not run git.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
go=${GO:-go}
gen=bin/tools/controller-gen
stale=()

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

# Beside the rest: where the module cache is cold they wait for the network.
modules=(. tools tools/image sandbox sandbox/clients/helm sandbox/terraform/tofu sandbox/terraform/kubectl sandbox/terraform/providers internal/console/browser)
tidy=()
for dir in "${modules[@]}"; do
	(cd "$dir" && exec "$go" mod tidy -diff) >/dev/null &
	tidy+=($!)
done

# Deepcopy: one package at a time, since controller-gen writes all output to one directory.
while read -r dir; do
	rm -f "$fresh"/*
	"$gen" object paths="./$dir" output:dir="$fresh"
	name=zz_generated.deepcopy.go
	# A package with nothing to generate has no file on either side.
	[[ -e $fresh/$name || -e $dir/$name ]] || continue
	diff -q "$fresh/$name" "$dir/$name" >/dev/null 2>&1 || stale+=("$dir/$name")
done < <(find api -name '*.go' -exec dirname {} + | sort -u)

"$go" run ./internal/gen -check -controller-gen "$gen" || stale+=("the files internal/gen named above")

for i in "${!modules[@]}"; do
	wait "${tidy[i]}" || stale+=("${modules[i]}/go.mod or ${modules[i]}/go.sum, by make tidy")
done

if ((${#stale[@]})); then
	printf '\nstale:\n' >&2
	printf '  %s\n' "${stale[@]}" >&2
	echo "run make generate (and make tidy where it says so)" >&2
	exit 1
fi
