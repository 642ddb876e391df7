#!/usr/bin/env bash
# Collects what a release consists of in dist/release, with checksums: the image, its SBOMs, the charts, and the script and
# the documents for IAM. `make release-dry` builds the parts first. Nothing leaves the machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${VERSION:?run make release-dry}" "${SOURCE_DATE_EPOCH:?run make release-dry}"

tag=$(git tag --points-at HEAD 2>/dev/null | grep -E '^v[0-9]' || true)
if [[ -n $tag && $tag != "v$VERSION" ]]; then
	echo "the commit has the tag $tag, and the version is $VERSION: write ${tag#v} into both charts/*/Chart.yaml, commit what is changed, and set the tag again" >&2
	exit 1
fi

out=dist/release
rm -rf "$out"
mkdir -p "$out"

# archive NAME DIRECTORY FILE... writes a tar file that depends on nothing but names and contents.
archive() {
	local name=$1 dir=$2
	shift 2
	tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w --mtime="@$SOURCE_DATE_EPOCH" --format=ustar -C "$dir" -cf "$out/$name" "$@"
}

archive "dovetail-image-$VERSION.tar" dist/image oci-layout index.json blobs
iam=(iam/policies iam/trust iam/event-rules iam/queue-policy.json iam/managed-policies.txt)
[[ ! -e hack/setup-karpenter-iam.sh ]] || iam+=(hack/setup-karpenter-iam.sh)
archive "dovetail-iam-$VERSION.tar" . "${iam[@]}"
gzip -n "$out/dovetail-iam-$VERSION.tar"
cp dist/charts/*.tgz "$out"
for document in dist/sbom/*.spdx.json; do
	name=${document##*/}
	cp "$document" "$out/${name%.spdx.json}-$VERSION.spdx.json"
done
(cd "$out" && sha256sum -- * >SHA256SUMS)
ls -l "$out"
