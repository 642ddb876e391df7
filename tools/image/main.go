// Command image builds the container image of Dovetail with ko and writes it as an OCI layout. It pulls no base image and
// pushes nothing: the base is made here, of pinned Go modules (docs/decisions/0026-an-image-from-go-modules.md).
//
// Enter at build. Run it with `make image`.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var o options
	var platforms string
	var created int64
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "the root of the repository")
	flags.StringVar(&o.version, "version", "", "version of the build, which becomes the tag")
	flags.StringVar(&o.commit, "commit", "", "commit of the build")
	flags.StringVar(&o.linker, "ldflags", "", "flags of the linker, those of make build")
	flags.Int64Var(&created, "created", 0, "when the commit was made, in seconds since 1970; the same image needs the same")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "operating systems and architectures")
	flags.StringVar(&o.layout, "o", "dist/image", "the OCI layout to write; one that is there is replaced")
	flags.StringVar(&o.sbom, "sbom", "dist/sbom", "the directory for the lists of what is in the image, as SPDX")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag; --help lists them", flags.Arg(0))
	}
	o.platforms, o.created = strings.Split(platforms, ","), time.Unix(created, 0).UTC()
	// ko reports what it finds out about git, which nothing here uses.
	log.SetOutput(io.Discard)
	fmt.Printf("building %s for %s\n", o.version, platforms)
	digest, err := build(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("%s %s %s\n", o.layout, o.version, digest)
	return nil
}
