#!/usr/bin/env bash
# Prints the version of a build: that of the charts where the commit has its tag (v0.1.0) and nothing is changed, else a
# pre-release of it that names the commit (0.1.0-dev.g1a2b3c4d5e6f, with .dirty where something is changed). Both are versions
# for Helm and tags for an image. Without git it is 0.1.0-dev.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n 's/^version: *//p' charts/karpenter/Chart.yaml)
commit=$(git describe --always --abbrev=12 --exclude '*' --dirty=.dirty 2>/dev/null) || {
	echo "$version-dev"
	exit
}
if [[ $(git describe --tags --exact-match --match "v$version" --dirty 2>/dev/null) == "v$version" ]]; then
	echo "$version"
else
	echo "$version-dev.g$commit"
fi
