package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

const (
	testVersion = "0.1.0-dev.gabcdef012345"
	testCommit  = "abcdef0123456789abcdef0123456789abcdef01"
)

// scratch holds what tests share, and is removed after the last one.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "image-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// deep is set by make test-deep. The gate builds for one architecture and compiles once for both builds: the second one would
// take as long as the first, and another architecture as long again.
func deep() bool { return os.Getenv("DOVETAIL_DEEP") != "" }

func platforms() []string {
	if deep() {
		return []string{"linux/amd64", "linux/arm64"}
	}
	return []string{"linux/amd64"}
}

// testOptions are those of the image that tests look at, from a root and into a directory.
func testOptions(root, dir string) options {
	const variable = "-X github.com/dovetail-sh/dovetail/internal/version."
	return options{
		root: root, version: testVersion, commit: testCommit, created: time.Unix(1_800_000_000, 0).UTC(), platforms: platforms(),
		linker: variable + "Version=" + testVersion + " " + variable + "Commit=" + testCommit,
		layout: filepath.Join(dir, "image"), sbom: filepath.Join(dir, "sbom"),
	}
}

var buildOnce = sync.OnceValues(func() (v1.Hash, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return v1.Hash{}, err
	}
	return build(context.Background(), testOptions(root, scratch))
})

// theImage is the image that tests look at, by platform, as it was read back from its layout.
func theImage(t *testing.T) (v1.Hash, map[string]v1.Image) {
	t.Helper()
	digest, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(scratch, "image"))
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]v1.Image{}
	imagesOf(t, index, images)
	return digest, images
}

func imagesOf(t *testing.T, index v1.ImageIndex, into map[string]v1.Image) {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range manifest.Manifests {
		if member.MediaType.IsIndex() {
			inner, err := index.ImageIndex(member.Digest)
			if err != nil {
				t.Fatal(err)
			}
			imagesOf(t, inner, into)
			continue
		}
		image, err := index.Image(member.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config := configOf(t, image)
		into[config.OS+"/"+config.Architecture] = image
	}
}

func configOf(t *testing.T, image v1.Image) *v1.ConfigFile {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config
}
